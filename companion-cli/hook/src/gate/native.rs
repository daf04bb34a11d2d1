//! This process as the host of the gate: what the gate asks of Envoy around it is kept here, or
//! asked of Envoy's admin interface. There is one worker, and no stream but requests to the gate.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use laststream_drain::requests::QUIT;
use laststream_drain::state::{FROM_UPSTREAM, Moment};
use laststream_filter::gate::{LET_PASS, REFUSE};
use laststream_filter::host::{Control, Host, Level, Metric, MetricKind};
use laststream_filter::memory::Memory;

use super::admin::{self, Answer, CallError, Target};
use super::input::{Input, Response, STACK};
use super::watchdog::CONFIGURATION;
use crate::Printer;

/// What is also asked for with the statistics of requests.
const OF_WORKERS: &str = "server%5C.%28concurrency%7Cuptime%7Cworker_%5B0-9%5D%2B%5C.\
                          watchdog_%28mega_%29%3Fmiss%29";
/// The part of a query that it takes the place of.
const OF_SERVER: &str = "server%5C.concurrency";
/// The program's own query.
const QUERY: &str =
    "/stats?filter=%5E%28server%5C.concurrency%7Chttp%5C.admin%5C.downstream_rq_total%29$";

/// What the program does with the answer to a call, before the gate gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallKind {
    /// `used_only`: without those that were never written.
    Statistics {
        used_only: bool,
    },
    Configuration,
    CloseLatch,
    OpenLatch,
    /// Ends Envoy, or asks its agent to.
    LastCall,
    Other,
}

/// A call that has not ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    pub(super) kind: CallKind,
    pub(super) began: Moment,
}

#[derive(Debug)]
struct MetricState {
    name: String,
    kind: MetricKind,
    value: u64,
    is_visible: bool,
}

/// See the module.
pub(super) struct Native<'p> {
    printer: &'p Printer,
    envoy: Target,
    /// The filter state that has the secret in Envoy, and the secret.
    secret: Option<(String, String)>,
    inputs: Sender<Input>,
    started: Instant,
    metrics: RefCell<Vec<MetricState>>,
    memory: Memory,
    /// The queues to which messages were sent.
    pub(super) notices: RefCell<VecDeque<(Moment, u32)>>,
    /// The queue of requests to all workers, and how many of them may be replied to.
    pub(super) beat: Cell<Option<u32>>,
    pub(super) beats: Cell<usize>,
    pub(super) period: Cell<u32>,
    /// Since when no program listens at Envoy's address.
    pub(super) absent_since: Cell<Option<Moment>>,
    /// When Envoy was last asked for its statistics.
    pub(super) queried_at: Cell<Option<Moment>>,
    numbers: Cell<u32>,
    pub(super) pending: RefCell<BTreeMap<u32, Pending>>,
    /// The end of the call of this callback.
    pub(super) answer: RefCell<Option<Result<Answer, CallError>>>,
    /// The local address and the headers of the request of this callback.
    pub(super) request: RefCell<(String, Vec<u8>)>,
    /// What the gate has answered; none for a request that is reset.
    pub(super) responses: RefCell<Vec<(u32, Option<Response>)>>,
}

impl<'p> Native<'p> {
    pub(super) fn new(
        printer: &'p Printer,
        envoy: Target,
        secret: Option<(String, String)>,
        inputs: Sender<Input>,
    ) -> Self {
        Self {
            printer,
            envoy,
            secret,
            inputs,
            started: Instant::now(),
            metrics: RefCell::default(),
            memory: Memory::default(),
            notices: RefCell::default(),
            beat: Cell::default(),
            beats: Cell::default(),
            period: Cell::default(),
            absent_since: Cell::default(),
            queried_at: Cell::default(),
            numbers: Cell::default(),
            pending: RefCell::default(),
            answer: RefCell::default(),
            request: RefCell::default(),
            responses: RefCell::default(),
        }
    }

    /// Forgets the drain, and the calls that were to be answered. Metrics go on.
    pub(super) fn forget(&self) {
        self.memory.clear();
        self.notices.borrow_mut().clear();
        self.pending.borrow_mut().clear();
        self.beats.set(0);
        self.beat.set(None);
    }

    /// The metrics, as Prometheus reads them.
    pub(super) fn prometheus(&self) -> String {
        let mut text = String::new();
        for metric in self.metrics.borrow().iter().filter(|metric| metric.is_visible) {
            let kind = if metric.kind == MetricKind::Counter { "counter" } else { "gauge" };
            let MetricState { name, value, .. } = metric;
            let _ = write!(text, "# TYPE {name} {kind}\n{name} {value}\n");
        }
        text
    }

    /// Calls Envoy on the program's own account.
    pub(super) fn call_envoy(&self, path: &str, patience: Duration) -> Option<u32> {
        self.dispatch(self.envoy.clone(), "GET", path, patience)
    }

    /// Asks Envoy for the statistics of its workers.
    pub(super) fn query(&self, patience: Duration) -> Option<u32> {
        self.call_envoy(QUERY, patience)
    }

    pub(super) fn is_pending(&self, is_wanted: impl Fn(CallKind) -> bool) -> bool {
        self.pending.borrow().values().any(|call| is_wanted(call.kind))
    }

    /// When the oldest query of statistics began that has no answer.
    pub(super) fn oldest_query(&self) -> Option<Moment> {
        let pending = self.pending.borrow();
        let queries =
            pending.values().filter(|call| matches!(call.kind, CallKind::Statistics { .. }));
        queries.map(|call| call.began).min()
    }

    fn dispatch(
        &self,
        target: Target,
        method: &str,
        path: &str,
        patience: Duration,
    ) -> Option<u32> {
        let kind = match path {
            _ if path.contains(OF_SERVER) => {
                CallKind::Statistics { used_only: path.ends_with("&usedonly") }
            }
            CONFIGURATION => CallKind::Configuration,
            REFUSE => CallKind::CloseLatch,
            LET_PASS => CallKind::OpenLatch,
            QUIT | "/drain" if method == "POST" => CallKind::LastCall,
            _ => CallKind::Other,
        };
        let (number, began) = (self.next_number(), self.monotonic_time());
        let inputs = self.inputs.clone();
        let (method, path) = (method.to_owned(), path.replace(OF_SERVER, OF_WORKERS));
        let call = move || {
            let answer = admin::request(&target, &method, &path, patience);
            let _ = inputs.send(Input::Answered(number, answer));
        };
        thread::Builder::new().stack_size(STACK).spawn(call).ok()?;
        let pending = Pending { kind, began };
        if matches!(kind, CallKind::Statistics { .. }) {
            self.queried_at.set(Some(began));
        }
        self.pending.borrow_mut().insert(number, pending);
        Some(number)
    }

    /// A number that no context and no call has had.
    pub(super) fn next_number(&self) -> u32 {
        self.numbers.set(self.numbers.get() + 1);
        self.numbers.get()
    }

    fn change_metric(&self, metric: Metric, change: impl FnOnce(&mut MetricState)) {
        if let Some(metric) = self.metrics.borrow_mut().get_mut(metric.0 as usize) {
            metric.is_visible = true;
            change(metric);
        }
    }
}

impl Host for Native<'_> {
    fn log(&self, level: Level, line: &str) {
        let severity = match level {
            Level::Info => "",
            Level::Warning => "warning: ",
            Level::Error | Level::Critical => "error: ",
        };
        self.printer.status_line(&format!("laststream gate: {severity}{line}"));
    }

    fn define_metric(&self, kind: MetricKind, name: &str) -> Option<Metric> {
        let mut metrics = self.metrics.borrow_mut();
        let position = metrics.iter().position(|metric| metric.name == name);
        let index = position.unwrap_or_else(|| {
            metrics.push(MetricState { name: name.into(), kind, value: 0, is_visible: false });
            metrics.len() - 1
        });
        u32::try_from(index).ok().map(Metric)
    }

    fn increment_metric(&self, metric: Metric, amount: i64) {
        self.change_metric(metric, |state| state.value = state.value.wrapping_add_signed(amount));
    }

    fn make_visible(&self, counter: Metric) {
        self.increment_metric(counter, 0);
    }

    fn get_metric(&self, metric: Metric) -> Option<u64> {
        self.metrics.borrow().get(metric.0 as usize).map(|metric| metric.value)
    }

    fn property(&self, path: &str) -> Option<Vec<u8>> {
        if path == "destination\0address" {
            return Some(self.request.borrow().0.clone().into_bytes());
        }
        let (key, secret) = self.secret.as_ref()?;
        (path.strip_prefix("filter_state\0")? == key).then(|| secret.clone().into_bytes())
    }

    fn request_headers(&self) -> Vec<u8> {
        self.request.borrow().1.clone()
    }

    fn set_request_header(&self, _name: &str, _value: &[u8]) {}

    fn remove_request_header(&self, _name: &[u8]) {}
}

impl Control for Native<'_> {
    /// Not from zero on, because zero is the time of what has never been.
    fn monotonic_time(&self) -> Moment {
        let elapsed = self.started.elapsed() + Duration::from_secs(3_600);
        Moment(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
    }

    /// Only streams of a filter are compared with it.
    fn wall_clock(&self) -> u64 {
        0
    }

    fn record_metric(&self, gauge: Metric, value: u64) {
        self.change_metric(gauge, |state| state.value = value);
    }

    fn get_shared_data(&self, key: &str) -> Option<(Vec<u8>, u32)> {
        self.memory.get(key)
    }

    fn set_shared_data(&self, key: &str, value: &[u8], generation: Option<u32>) -> bool {
        self.memory.set(key, value, generation)
    }

    fn register_queue(&self, _name: &str) -> Option<u32> {
        self.memory.register()
    }

    fn enqueue(&self, queue: u32, message: &[u8]) -> bool {
        let is_sent = self.memory.push(queue, message);
        if is_sent {
            self.notices.borrow_mut().push_back((self.monotonic_time(), queue));
        }
        is_sent
    }

    fn dequeue(&self, queue: u32) -> Option<Vec<u8>> {
        if self.beat.get() == Some(queue) {
            self.beats.set(self.beats.get().checked_sub(1)?);
        }
        self.memory.pop(queue)
    }

    fn set_tick_period(&self, period: u32) {
        self.period.set(period);
    }

    fn dispatch_http_call(
        &self,
        cluster: &str,
        method: &str,
        path: &str,
        patience: u64,
    ) -> Option<u32> {
        self.dispatch(cluster.parse().ok()?, method, path, Duration::from_millis(patience))
    }

    /// The status that Envoy would have put in the place of an answer.
    fn call_response_status(&self) -> Option<u16> {
        match &*self.answer.borrow() {
            Some(Ok(answer)) => Some(answer.status),
            Some(Err(CallError::TimedOut)) => Some(504),
            Some(Err(CallError::Refused | CallError::NotSent)) => Some(503),
            Some(Err(CallError::Broken)) | None => None,
        }
    }

    fn call_response_header(&self, name: &str) -> Option<Vec<u8>> {
        let is_genuine = matches!(&*self.answer.borrow(), Some(Ok(_)));
        (is_genuine && name == FROM_UPSTREAM).then(|| b"0".to_vec())
    }

    fn call_response_body(&self, _length: usize) -> Vec<u8> {
        match &*self.answer.borrow() {
            Some(Ok(answer)) => answer.body.clone().into_bytes(),
            Some(Err(CallError::Refused)) => b"reset reason: remote connection failure".to_vec(),
            Some(Err(CallError::NotSent)) => b"reset reason: local connection failure".to_vec(),
            _ => Vec::new(),
        }
    }

    fn send_http_response(&self, stream: u32, status: u16, headers: &[(&str, &str)], body: &str) {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let headers = headers.iter().map(pair).collect();
        let response = Response { status, headers, body: body.to_owned() };
        self.responses.borrow_mut().push((stream, Some(response)));
    }

    fn reset_stream(&self, stream: u32) {
        self.responses.borrow_mut().push((stream, None));
    }

    fn set_effective_context(&self, _stream: u32) -> bool {
        true
    }

    fn set_property(&self, _name: &str, _value: &[u8]) -> bool {
        false
    }
}
