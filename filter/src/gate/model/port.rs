//! Envoy as one callback of a VM sees it. The port runs the callback up to the next host call
//! before which another worker may run, and then suspends it. To resume it, the port begins the
//! callback anew and replays the replies that it got so far.

use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use laststream_drain::sim::expected;
use laststream_drain::state::Moment;

use super::shared::{
    Call, Event, Queue, Response, Shared, TRACKED, is_excluded, metric_index, scope_of_in_flight,
};
use crate::host::{Control, Host, Level, Metric, MetricKind};

/// The result of a host call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    Number(u64),
    Data(Option<Vec<u8>>),
    Flag(bool),
}

/// The VM that is called, and its input.
#[derive(Debug, Clone, Default)]
pub(super) struct Caller {
    pub(super) worker: usize,
    /// The number of its root among those of the worker.
    pub(super) root: u32,
    pub(super) headers: Vec<u8>,
    /// The status and the body of the response in this callback.
    pub(super) answer: Response,
    /// Whether other workers may run before a host call that touches a metric of streams.
    pub(super) is_fine: bool,
    /// Whether other workers may run before the record, or the holder of the latch, is stored.
    pub(super) is_raced: bool,
    /// Whether the callback is for a stream that holds the drain.
    pub(super) holds: bool,
    /// The scope of the gate that is called.
    pub(super) scope: Option<usize>,
}

/// The progress of one callback that [`Shared`] does not show.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Progress {
    pub(super) replies: Vec<Reply>,
    /// Streams in flight that hold the drain, when the gate last read the gauge.
    pub(super) holding_at_read: u64,
}

pub(super) struct Port<'s> {
    shared: RefCell<&'s mut Shared>,
    caller: Caller,
    progress: RefCell<Progress>,
    next: Cell<usize>,
    /// Whether this step has made a host call before which other workers may run.
    has_yielded: Cell<bool>,
    answered: RefCell<Vec<u32>>,
    period: Cell<Option<u32>>,
}

/// The payload of the panic that suspends a callback.
struct Suspended;

impl<'s> Port<'s> {
    pub(super) fn new(shared: &'s mut Shared, caller: Caller, progress: Progress) -> Self {
        // A callback that begins is suspended before its first store, so that it can be late.
        let has_yielded = caller.is_raced && progress.replies.is_empty();
        Self {
            shared: RefCell::new(shared),
            caller,
            progress: RefCell::new(progress),
            next: Cell::new(0),
            has_yielded: Cell::new(has_yielded),
            answered: RefCell::default(),
            period: Cell::new(None),
        }
    }

    /// Runs a callback for one step. None: it goes on later.
    pub(super) fn run<T>(&self, callback: impl FnOnce(&Self) -> T) -> Option<T> {
        match catch_unwind(AssertUnwindSafe(|| callback(self))) {
            Ok(done) => Some(done),
            Err(payload) if payload.is::<Suspended>() => None,
            Err(payload) => resume_unwind(payload),
        }
    }

    pub(super) fn into_progress(self) -> Progress {
        self.progress.into_inner()
    }

    /// The requests that were answered so far.
    pub(super) fn take_answered(&self) -> Vec<u32> {
        self.answered.take()
    }

    /// The period that was set in this callback.
    pub(super) fn period(&self) -> Option<u32> {
        self.period.get()
    }

    /// Makes a host call, or replays its reply if an earlier step has made it.
    fn perform(
        &self,
        yields: bool,
        make: impl FnOnce(&mut Shared, &mut Progress) -> Reply,
    ) -> Reply {
        let position = self.next.replace(self.next.get() + 1);
        if let Some(reply) = self.progress.borrow().replies.get(position) {
            return reply.clone();
        }
        if yields && self.has_yielded.replace(true) {
            resume_unwind(Box::new(Suspended));
        }
        let mut progress = self.progress.borrow_mut();
        let reply = make(&mut self.shared.borrow_mut(), &mut progress);
        if self.caller.is_fine || self.caller.is_raced {
            progress.replies.push(reply.clone());
        }
        reply
    }

    fn number(&self, yields: bool, make: impl FnOnce(&mut Shared, &mut Progress) -> u64) -> u64 {
        match self.perform(yields, |shared, progress| Reply::Number(make(shared, progress))) {
            Reply::Number(number) => number,
            other => panic!("the callback took another way: {other:?}"),
        }
    }

    fn flag(&self, yields: bool, make: impl FnOnce(&mut Shared) -> bool) -> bool {
        self.perform(yields, |shared, _| Reply::Flag(make(shared))) == Reply::Flag(true)
    }

    fn data(&self, make: impl FnOnce(&mut Shared) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
        match self.perform(false, |shared, _| Reply::Data(make(shared))) {
            Reply::Data(data) => data,
            other => panic!("the callback took another way: {other:?}"),
        }
    }

    /// Whether other workers may run before a host call for this metric: streams and gates both
    /// touch it.
    fn yields_at(&self, metric: Metric) -> bool {
        self.caller.is_fine && (metric.0 as usize) < TRACKED && !is_excluded(metric)
    }
}

/// The generation of shared data. A value that is set again has the same one, which changes nothing
/// for a caller that has read it.
fn generation(value: &[u8]) -> u32 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish() as u32
}

/// Whether the gates of several workers change this value at the same moments.
fn is_raced(key: &str) -> bool {
    key.starts_with("laststream.gate") || key == "laststream.latch"
}

impl Host for Port<'_> {
    fn log(&self, _level: Level, _line: &str) {}

    fn define_metric(&self, _kind: MetricKind, name: &str) -> Option<Metric> {
        metric_index(name)
    }

    fn increment_metric(&self, metric: Metric, amount: i64) {
        if metric.0 as usize >= TRACKED {
            return;
        }
        self.number(self.yields_at(metric), |shared, _| {
            let value = &mut shared.values[metric.0 as usize];
            *value = value.wrapping_add_signed(amount);
            if let Some(scope) = scope_of_in_flight(metric).filter(|_| self.caller.holds) {
                shared.holding[scope] = shared.holding[scope].wrapping_add_signed(amount);
            }
            0
        });
    }

    fn make_visible(&self, _counter: Metric) {}

    fn get_metric(&self, metric: Metric) -> Option<u64> {
        if metric.0 as usize >= TRACKED {
            return Some(0);
        }
        Some(self.number(self.yields_at(metric), |shared, progress| {
            if let Some(scope) =
                scope_of_in_flight(metric).filter(|scope| self.caller.scope == Some(*scope))
            {
                progress.holding_at_read = shared.holding[scope];
            }
            shared.values[metric.0 as usize]
        }))
    }

    fn property(&self, path: &str) -> Option<Vec<u8>> {
        match path {
            "destination\0address" => Some(b"127.0.0.1:15099".to_vec()),
            "plugin_name" => Some(b"gate".to_vec()),
            _ => None,
        }
    }

    fn request_headers(&self) -> Vec<u8> {
        self.caller.headers.clone()
    }

    fn set_request_header(&self, _name: &str, _value: &[u8]) {}

    fn remove_request_header(&self, _name: &[u8]) {}
}

impl Control for Port<'_> {
    fn monotonic_time(&self) -> Moment {
        Moment(self.number(false, |shared, _| shared.clock))
    }

    fn wall_clock(&self) -> u64 {
        self.number(false, |shared, _| shared.clock + shared.wall_step)
    }

    fn record_metric(&self, gauge: Metric, value: u64) {
        if (gauge.0 as usize) < TRACKED {
            self.number(self.yields_at(gauge), |shared, _| {
                shared.values[gauge.0 as usize] = value;
                0
            });
        }
    }

    fn get_shared_data(&self, key: &str) -> Option<(Vec<u8>, u32)> {
        let value = self.data(|shared| shared.data.get(key).cloned())?;
        let generation = generation(&value);
        Some((value, generation))
    }

    fn set_shared_data(&self, key: &str, value: &[u8], expected: Option<u32>) -> bool {
        self.flag(self.caller.is_raced && is_raced(key), |shared| {
            let is_same = shared.data.get(key).map(|value| generation(value)) == expected;
            if is_same {
                Arc::make_mut(&mut shared.data).insert(key.into(), value.to_vec());
            }
            is_same
        })
    }

    fn register_queue(&self, _name: &str) -> Option<u32> {
        let queue = self.number(false, |shared, _| {
            Arc::make_mut(&mut shared.queues).push(Queue {
                worker: self.caller.worker,
                root: self.caller.root,
                messages: Vec::new(),
            });
            shared.queues.len() as u64
        });
        u32::try_from(queue).ok()
    }

    fn enqueue(&self, queue: u32, message: &[u8]) -> bool {
        self.flag(false, |shared| {
            let queue = shared.queue(queue);
            queue.map(|queue| queue.messages.push(message.to_vec())).is_some()
        })
    }

    fn dequeue(&self, queue: u32) -> Option<Vec<u8>> {
        self.data(|shared| {
            let messages = &mut shared.queue(queue)?.messages;
            (!messages.is_empty()).then(|| messages.remove(0))
        })
    }

    fn set_tick_period(&self, period: u32) {
        self.period.set(Some(period));
    }

    fn dispatch_http_call(
        &self,
        _cluster: &str,
        _method: &str,
        path: &str,
        _patience: u64,
    ) -> Option<u32> {
        let number = self.number(false, |shared, _| {
            if core::mem::take(&mut shared.refuses_next) {
                return 0;
            }
            shared.calls_made += 1;
            let number = shared.calls_made;
            let Caller { worker, root, .. } = self.caller;
            let call = Call { number, worker, root, path: path.into(), ended: None };
            Arc::make_mut(&mut shared.calls).push(call);
            if expected::signal(path).is_some() {
                shared.events.push(Event::Passed { number, root });
            }
            number.into()
        });
        u32::try_from(number).ok().filter(|number| *number > 0)
    }

    fn call_response_status(&self) -> Option<u16> {
        self.caller.answer.0
    }

    fn call_response_header(&self, _name: &str) -> Option<Vec<u8>> {
        None
    }

    fn call_response_body(&self, _length: usize) -> Vec<u8> {
        self.caller.answer.1.clone().into_bytes()
    }

    fn send_http_response(&self, stream: u32, status: u16, _headers: &[(&str, &str)], body: &str) {
        self.perform(false, |shared, progress| {
            shared.events.push(Event::Answered {
                request: stream,
                status,
                holding: progress.holding_at_read,
                tells: body.contains(" was sent "),
            });
            Reply::Flag(true)
        });
        self.answered.borrow_mut().push(stream);
    }

    fn reset_stream(&self, _stream: u32) {}

    fn set_effective_context(&self, _stream: u32) -> bool {
        true
    }

    fn set_property(&self, _name: &str, _value: &[u8]) -> bool {
        true
    }
}

/// A host that defines metrics before anything is counted; every probe succeeds.
pub(super) struct Definitions;

impl Host for Definitions {
    fn log(&self, _level: Level, _line: &str) {}
    fn define_metric(&self, _kind: MetricKind, name: &str) -> Option<Metric> {
        metric_index(name)
    }
    fn increment_metric(&self, _metric: Metric, _amount: i64) {}
    fn make_visible(&self, _counter: Metric) {}
    fn get_metric(&self, _metric: Metric) -> Option<u64> {
        Some(1)
    }
    fn property(&self, _path: &str) -> Option<Vec<u8>> {
        None
    }
    fn request_headers(&self) -> Vec<u8> {
        Vec::new()
    }
    fn set_request_header(&self, _name: &str, _value: &[u8]) {}
    fn remove_request_header(&self, _name: &[u8]) {}
}
