//! The program's loop: everything that happens is an input, and each input is one callback of the
//! gate, as in Envoy.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

use laststream_drain::state::{Millis, Moment};
use laststream_drain::watchdog::{Sample, Workers};
use laststream_filter::headers::serialise;
use laststream_filter::host::{Control as _, Host as _, Level};
use laststream_filter::lifecycle::{HttpStream, Root};

use super::admin::{Answer, CallError};
use super::configuration::Configuration;
use super::ending::Ending;
use super::input::{Input, Request, Response};
use super::native::{CallKind, Native};
use super::watchdog::{self, CONFIGURATION};
use crate::Exit;

/// How long the gate waits for Envoy's first answer before it begins its work; its clients wait as
/// well. Without that it would tell an Envoy that is still starting to let requests pass, and find
/// that it cannot.
const START: Millis = Millis(3_000);
/// The longest pause between two looks at what is due.
const PAUSE: Millis = Millis(1_000);
/// The same while something is under way.
const SHORT_PAUSE: Millis = Millis(50);
/// The interval of queries while workers are to be heard, unless the gate queries. Longer than the
/// gate's own interval.
const QUERY_INTERVAL: Millis = Millis(100);
/// The same while nothing waits: a worker that already stands still when a drain begins was counted
/// before.
const IDLE_QUERY_INTERVAL: Millis = Millis(10_000);
/// The time limit of the program's own calls.
const PATIENCE: Duration = Duration::from_secs(10);

/// See the module.
pub(super) struct Program<'p> {
    pub(super) native: Native<'p>,
    configuration: &'p Configuration,
    root: Root,
    /// Requests to the gate, and where their replies go; that of the program's own has no place.
    streams: BTreeMap<u32, (HttpStream, Option<SyncSender<Response>>)>,
    workers: Workers,
    /// The tick period, and when the next tick is due.
    tick: Option<(u32, Moment)>,
    /// When Envoy was last asked for its configuration.
    asked_at: Option<Moment>,
    has_warned: bool,
    ending: Ending,
}

impl<'p> Program<'p> {
    pub(super) fn new(
        native: Native<'p>,
        configuration: &'p Configuration,
        ending: Ending,
    ) -> Self {
        Self {
            root: Root::new(native.next_number()),
            streams: BTreeMap::new(),
            workers: Workers::default(),
            tick: None,
            asked_at: None,
            has_warned: false,
            native,
            configuration,
            ending,
        }
    }

    fn configure(&mut self) -> Result<(), String> {
        let text = self.configuration.text.as_bytes();
        let is_accepted = self.root.on_configure(&self.native, text);
        is_accepted.then_some(()).ok_or_else(|| "the gate refuses its configuration".to_owned())
    }

    /// Lets the gate listen once Envoy has answered or takes long, and runs until the drain that a
    /// signal began is over, or the child has ended.
    ///
    /// # Errors
    /// The configuration does not fit this Envoy.
    pub(super) fn run(
        &mut self,
        inputs: &Receiver<Input>,
        listen: impl FnOnce() -> Result<(), String>,
    ) -> Result<Exit, String> {
        let until = self.native.monotonic_time() + START;
        while self.workers.watchdog.is_none()
            && self.ending.exit().is_none()
            && self.native.monotonic_time() < until
        {
            self.step(inputs)?;
        }
        self.configure()?;
        listen()?;
        loop {
            self.settle();
            let (now, absent_since) =
                (self.native.monotonic_time(), self.native.absent_since.get());
            if self.ending.begins_drain(now, absent_since) {
                self.begin_drain();
            }
            if let Some(exit) = self.ending.exit() {
                return Ok(exit);
            }
            self.step(inputs)?;
        }
    }

    /// Asks Envoy if it is time for that, and waits for an input or the next time.
    fn step(&mut self, inputs: &Receiver<Input>) -> Result<(), String> {
        self.ask_envoy_if_due();
        if let Ok(input) = inputs.recv_timeout(Duration::from_millis(self.pause().0)) {
            self.handle(input)?;
        }
        self.tick();
        Ok(())
    }

    fn pause(&self) -> Millis {
        let is_busy = self.workers.awaits_reply() || self.ending.is_busy();
        let most = if is_busy { SHORT_PAUSE } else { PAUSE };
        let now = self.native.monotonic_time();
        let query = self.workers.reply_is_due().filter(|due| *due > now);
        let dues = self.tick.map(|(_, due)| due).into_iter().chain(query);
        dues.fold(most, |pause, due| pause.min(due - now))
    }

    fn tick(&mut self) {
        self.set_tick();
        let now = self.native.monotonic_time();
        if let Some((period, _)) = self.tick.filter(|(_, due)| now >= *due) {
            self.tick = Some((period, now + Millis(period.into())));
            self.root.on_tick(&self.native);
        }
    }

    /// Another period makes no tick later that was due: fast requests would postpone it for ever.
    fn set_tick(&mut self) {
        let period = self.native.period.get();
        if self.tick.map_or(0, |(period, _)| period) != period {
            let due = self.native.monotonic_time() + Millis(period.into());
            let due = self.tick.map_or(due, |(_, earlier)| earlier.min(due));
            self.tick = (period > 0).then_some((period, due));
        }
    }

    fn handle(&mut self, input: Input) -> Result<(), String> {
        match input {
            Input::Request(_, request) if request.is_for_metrics => {
                let headers = vec![("content-type".to_owned(), "text/plain".to_owned())];
                let body = self.native.prometheus();
                drop(request.reply.send(Response { status: 200, headers, body }));
            }
            Input::Request(number, Request { headers, address, reply, .. }) => {
                self.begin_request(number, (address, headers), Some(reply));
            }
            Input::Gone(number) => {
                if let Some((mut stream, _)) = self.streams.remove(&number) {
                    stream.on_delete(&self.native);
                }
            }
            Input::Answered(number, answer) => self.end_call(number, answer)?,
            Input::Signal(signal) => self.ending.signal(signal),
            Input::Child => self.ending.reap(),
        }
        Ok(())
    }

    fn begin_request(
        &mut self,
        number: u32,
        request: (String, Vec<u8>),
        reply: Option<SyncSender<Response>>,
    ) {
        *self.native.request.borrow_mut() = request;
        let mut stream = self.root.create_stream(number);
        stream.on_request_headers(&self.native);
        self.streams.insert(number, (stream, reply));
    }

    /// The program's own request to the gate, as a stop hook makes it.
    fn begin_drain(&mut self) {
        let mut headers =
            vec![(":method", "GET"), (":path", "/prestop?wait"), (":authority", "localhost")];
        let secret = self.configuration.secret.as_ref();
        headers.extend(secret.map(|secret| ("x-laststream-secret", secret.reveal())));
        let request = ("127.0.0.1:0".to_owned(), serialise(&headers));
        self.begin_request(self.native.next_number(), request, None);
    }

    /// Passes on messages and replies, until there are none.
    fn settle(&mut self) {
        loop {
            self.native.beat.set(self.root.beat_queue());
            let responses = self.native.responses.take();
            for (number, response) in responses {
                self.respond(number, response);
            }
            let Some((at, queue)) = self.native.notices.borrow_mut().pop_front() else { return };
            if self.native.beat.get() == Some(queue) {
                let count = self.workers.ask(at);
                self.beat(count);
            } else {
                self.root.on_queue_ready(&self.native, queue);
            }
        }
    }

    fn respond(&mut self, number: u32, response: Option<Response>) {
        let Some((mut stream, client)) = self.streams.remove(&number) else { return };
        match (client, response) {
            (Some(client), Some(response)) => drop(client.send(response)),
            (None, Some(Response { status, body, .. })) => {
                self.ending.drain_was_answered(status, &body, self.native.monotonic_time());
            }
            (_, None) => {}
        }
        stream.on_delete(&self.native);
    }

    fn ask_envoy_if_due(&mut self) {
        let now = self.native.monotonic_time();
        let is_due =
            |last: Option<Moment>, pause: Millis| last.is_none_or(|last| now - last >= pause);
        let must_read = self.workers.watchdog.is_none() && is_due(self.asked_at, PAUSE);
        if must_read && !self.native.is_pending(|kind| kind == CallKind::Configuration) {
            self.asked_at = Some(now);
            self.native.call_envoy(CONFIGURATION, PATIENCE);
        }
        let usual = self.workers.usual();
        let pause = match self.workers.awaits_reply() {
            true => QUERY_INTERVAL.max(usual * 4),
            false if self.workers.are_calm() => IDLE_QUERY_INTERVAL.max(usual * 100),
            false => PAUSE.max(usual * 100),
        };
        let queried_at = self.native.queried_at.get();
        let reply_is_due = self.workers.reply_is_due().filter(|due| now >= *due);
        if (is_due(queried_at, pause) || queried_at < reply_is_due)
            && !self.native.is_pending(|kind| matches!(kind, CallKind::Statistics { .. }))
        {
            self.native.query(PATIENCE);
        }
    }

    fn end_call(&mut self, number: u32, answer: Result<Answer, CallError>) -> Result<(), String> {
        let Some(call) = self.native.pending.borrow_mut().remove(&number) else { return Ok(()) };
        let now = self.native.monotonic_time();
        match (call.kind, &answer) {
            (CallKind::OpenLatch | CallKind::CloseLatch, Ok(Answer { status, .. })) => {
                self.ending.has_latch = *status == 200;
            }
            (CallKind::LastCall, Ok(Answer { status: 200, .. })) => {
                self.ending.last_call_has_passed(now);
            }
            (CallKind::LastCall, _) => self.ending.last_call_has_failed(now),
            _ => {}
        }
        let body = match &answer {
            Ok(Answer { status: 200, body }) => Some(body.as_str()),
            _ => None,
        };
        match (call.kind, body) {
            (CallKind::Statistics { used_only }, body) => {
                let since = self.native.absent_since.get();
                let is_absent = answer == Err(CallError::Refused);
                self.native.absent_since.set(is_absent.then(|| since.unwrap_or(now)));
                if !self.look_at_workers(call.began, body, used_only) {
                    return self.begin_anew();
                }
            }
            (CallKind::Configuration, Some(body)) => self.read_watchdog(body)?,
            (CallKind::CloseLatch, Some(_)) => self.workers.latch_has_closed(now),
            _ => {}
        }
        let has_headers = answer != Err(CallError::Broken);
        let length = answer.as_ref().map_or(0, |answer| answer.body.len());
        self.native.answer.replace(Some(answer));
        let root = &self.root;
        root.on_http_call_response(&self.native, number, has_headers.into(), length);
        self.native.answer.replace(None);
        Ok(())
    }

    /// Learns of the workers from Envoy's statistics, or from their absence. False: Envoy has begun
    /// anew.
    fn look_at_workers(&mut self, began: Moment, body: Option<&str>, used_only: bool) -> bool {
        let now = self.native.monotonic_time();
        let sample = body.and_then(|body| Sample::parse(began, now, body, used_only));
        let Some(mut sample) = sample else {
            self.workers.answer_is_missing(now);
            return true;
        };
        sample.waited = now - self.native.oldest_query().unwrap_or(now).min(began);
        let Some(count) = self.workers.add(sample) else { return false };
        if !self.workers.has_watchdog() && !self.has_warned && self.workers.watchdog.is_some() {
            self.has_warned = true;
            self.native.log(Level::Warning, NO_WATCHDOG);
        }
        self.beat(count);
        true
    }

    /// Lets the gate reply to so many requests to all workers.
    fn beat(&self, count: usize) {
        if let Some(queue) = self.native.beat.get().filter(|_| count > 0) {
            self.native.beats.set(count);
            self.root.on_queue_ready(&self.native, queue);
        }
    }

    fn read_watchdog(&mut self, body: &str) -> Result<(), String> {
        let Some(watchdog) = watchdog::read(body) else { return Ok(()) };
        let (least, quiet) = (watchdog.notices_within().0, self.configuration.quiet_ms);
        if quiet < least {
            return Err(format!(
                "the quiet period of {quiet} ms is too short: Envoy's watchdog needs up to {least} \
                 ms to notice a worker that stands still; set `quiet_ms` to {least} or more, or \
                 `watchdogs.worker_watchdog.miss_timeout` in Envoy's bootstrap to a fifth of the \
                 quiet period"
            ));
        }
        self.workers.watchdog = Some(watchdog);
        Ok(())
    }

    /// Envoy was started anew: what was known of the earlier process holds no more.
    fn begin_anew(&mut self) -> Result<(), String> {
        self.native.log(Level::Warning, "Envoy was started anew, so its drain is forgotten");
        self.native.forget();
        let response = || Response {
            status: 503,
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: r#"{"state":"serving","reason":"Envoy was started anew"}"#.to_owned(),
        };
        let numbers: Vec<u32> = self.streams.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.respond(number, Some(response())));
        self.root = Root::new(self.native.next_number());
        (self.workers, self.tick, self.asked_at) = (Workers::default(), None, None);
        self.native.period.set(0);
        self.configure()
    }
}

const NO_WATCHDOG: &str = "Envoy does not export server.worker_N.watchdog_miss for each worker, so \
    nothing shows at once whether one stands still: zero must last for two flushes of statistics, \
    about ten seconds; export the statistics that begin with `server.`";
