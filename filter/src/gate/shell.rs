//! The shell of the drain's protocol, on one worker: in each callback it reads the facts, calls
//! [`Worker::on`] once, stores the record and applies the effects. It decides nothing.
//!
//! Requests are enqueued in the callback of their HTTP context, and handled in one of the root
//! context: the SDK passes the answer of a call to the context in whose callback the call was made,
//! and drops it if that context has gone.

use std::collections::VecDeque;
use std::sync::Arc;

use laststream_drain::Worker;
use laststream_drain::requests::{Answer, Call, Client, Effect, Effects, Ended, Event, Outcome};
use laststream_drain::state::{CallEnd, FROM_UPSTREAM, Millis, Queue, Shared, StreamNumber};
use laststream_drain::timing::{FIRST_TICK, SHORT_TICK};

use super::access::{ConnectionProperties, access_refusal, browser_refusal, refusal_body};
use super::calls::Calls;
use super::grace::longest_drain;
use super::http::{RequestError, is_of_hook, needs_access, parse_command};
use super::metrics::Metrics;
use super::policy::GatePolicy;
use super::replies::{Streams, json, respond, respond_json};
use super::shared::key_of_this_filter;
use crate::census::frames::notify_frame_filters;
use crate::census::latch::Latch;
use crate::census::stream_ender::stop_ends;
use crate::census::{index, messages};
use crate::config::Fault;
use crate::headers::Headers;
use crate::host::{Control, Level, MetricKind};
use crate::metrics::{self as names, define};
use crate::shared_text::{parse_or_default, to_text};

/// The message that the gate sends to its own queue. No reply of a counter has this text.
const WAKE: &[u8] = b"wake";
/// The most tries to store the shared value. There are fewer workers that could change it
/// meanwhile.
const TRIES: usize = 1_000;

/// The gate of one worker.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    pub(super) policy: GatePolicy,
    /// The key of the shared value.
    pub(super) key: String,
    pub(super) metrics: Metrics,
    pub(super) latch: Latch,
    pub(super) worker: Worker,
    pub(super) calls: Calls,
    /// The gate's own queue, which also identifies the gate among those of other workers.
    pub(super) queue: Option<Queue>,
    /// Requests, and ends of calls that could not be made: each waits for a callback of the root
    /// context.
    pub(super) events: VecDeque<Event>,
    /// The tick period that the protocol wants, and the one that Envoy has.
    tick: Option<Millis>,
    period: u32,
    /// Whether a gRPC request was reset, which is logged once.
    has_reset_grpc: bool,
}

// === callbacks ===

impl Gate {
    /// # Errors
    /// The metric that Envoy does not define.
    pub(crate) fn new(host: &impl Control, root: u32, policy: GatePolicy) -> Result<Self, Fault> {
        let drain = Arc::clone(&policy.drain);
        let closing = define(host, MetricKind::Gauge, names::CLOSING.into())?;
        let mut gate = Self {
            metrics: Metrics::define(host, &drain.scopes, drain.deadline.0 / 1_000)?,
            key: key_of_this_filter(host, &drain.scopes),
            latch: Latch::new((!drain.by_envoy).then_some(closing)),
            worker: Worker::new(drain),
            policy,
            calls: Calls::new(root),
            queue: None,
            events: VecDeque::new(),
            tick: None,
            period: 0,
            has_reset_grpc: false,
        };
        // A drain that began before this configuration goes on under it.
        gate.handle(host, &Event::Configured);
        if gate.policy.drain.by_envoy {
            gate.set_period(host, Some(FIRST_TICK));
        }
        Ok(gate)
    }

    pub(crate) fn on_tick(&mut self, host: &impl Control) {
        self.receive(host);
        let event = self.events.pop_front().unwrap_or(Event::Tick);
        self.handle(host, &event);
    }

    /// Handles messages: the gate's own, or counters' replies. Envoy calls this once for each
    /// message, and the first callback has emptied the queue. Nothing is evaluated as long as more
    /// counters are expected to reply.
    pub(crate) fn on_queue_ready(&mut self, host: &impl Control, queue: Queue) {
        if self.queue == Some(queue) {
            let is_complete = self.receive(host);
            let event = self.events.pop_front().or(is_complete.then_some(Event::Message));
            if let Some(event) = event {
                self.handle(host, &event);
            }
        }
    }

    /// Refuses the request here, while its headers and its connection can be read, or enqueues its
    /// command for the root context.
    #[inline(never)] // keeps this code out of the path of every stream
    pub(crate) fn on_request_headers(
        &mut self,
        host: &impl Control,
        stream: StreamNumber,
        map: &[u8],
    ) {
        let headers = Headers::new(map);
        if headers.is_grpc() {
            return self.reset_grpc(host, stream);
        }
        let text = |name| String::from_utf8_lossy(headers.first(name).unwrap_or_default());
        let connection = ConnectionProperties::read(host, &self.policy);
        let access = connection.access(&self.policy);
        if let Some(why) = browser_refusal(headers, &access) {
            return respond_json(host, stream.0, 403, &refusal_body(why));
        }
        match parse_command(&text(":method"), &text(":path")) {
            Ok(command) => {
                let path = headers.first(":path").unwrap_or_default();
                let refusal = access_refusal(headers, path, &command, &access);
                if let Some(why) = refusal.filter(|_| needs_access(&command)) {
                    return respond_json(host, stream.0, 403, &refusal_body(why));
                }
                let client = Client {
                    has_access: refusal.is_none(),
                    longest_drain: is_of_hook(&command).then(|| longest_drain(host)).flatten(),
                };
                self.post(host, Event::Request { stream, command, client });
            }
            Err(error) => self.reject_request(host, stream, error),
        }
    }

    fn reject_request(&self, host: &impl Control, stream: StreamNumber, error: RequestError) {
        let StreamNumber(stream) = stream;
        let text = host.get_shared_data(&self.key).map(|(text, _)| text);
        let state = parse_or_default::<Shared>(text.as_deref()).record.phase;
        let outcome = |reason: &str| Outcome { state, reason: reason.into(), holding: None };
        match error {
            RequestError::Path => {
                respond(host, stream, 404, &outcome("there is no such path; see /status"))
            }
            RequestError::Query(why) => respond(host, stream, 400, &outcome(why)),
            RequestError::Method(allow) => {
                let headers = [("content-type", "application/json"), ("allow", allow)];
                let body = json(&outcome("this path takes other methods"));
                host.send_http_response(stream, 405, &headers, &body);
            }
        }
    }

    /// Resets a gRPC request. Envoy turns every answer of a filter to it into HTTP 200, and a
    /// client that polls for 200 would take a refusal for success.
    fn reset_grpc(&mut self, host: &impl Control, stream: StreamNumber) {
        if !core::mem::replace(&mut self.has_reset_grpc, true) {
            host.log(
                Level::Warning,
                "a gRPC request was cut: Envoy would answer 200, whatever the gate says",
            );
        }
        host.reset_stream(stream.0);
    }

    /// Forgets a request that was answered, or whose client has gone.
    #[inline(never)] // as above
    pub(crate) fn on_stream_end(&mut self, host: &impl Control, gone: StreamNumber) {
        self.events
            .retain(|event| !matches!(event, Event::Request { stream, .. } if *stream == gone));
        self.handle(host, &Event::StreamGone(gone));
    }

    /// Handles the end of a call. A call without response headers failed, and the SDK panics if
    /// they are read.
    pub(crate) fn on_http_call_response(
        &mut self,
        host: &impl Control,
        number: u32,
        num_headers: usize,
        body_size: usize,
    ) {
        let Some(call) = self.calls.take(number) else { return };
        let is_answered = num_headers > 0;
        let status = if is_answered { host.call_response_status() } else { None };
        let is_from_upstream = is_answered && host.call_response_header(FROM_UPSTREAM).is_some();
        let body = String::from_utf8_lossy(&host.call_response_body(body_size)).into_owned();
        let end = CallEnd::from_answer(status, is_from_upstream, &body);
        self.receive(host);
        self.handle(host, &Event::CallEnded(call, Ended { end, body }));
    }

    /// Envoy replaces or removes the configuration, and drops the answers to all calls. A signal to
    /// end that was sent may have arrived.
    pub(crate) fn on_delete(&mut self, host: &impl Control) {
        let ends_envoy = self.calls.any(Call::ends_envoy);
        self.handle(host, &Event::Deleted { ends_envoy });
    }
}

// === one event ===

impl Gate {
    /// Keeps an event for the root context. If the message cannot be sent, the next tick handles
    /// the event.
    fn post(&mut self, host: &impl Control, event: Event) {
        self.events.push_back(event);
        self.wake(host);
    }

    fn wake(&mut self, host: &impl Control) {
        // A VM that Envoy creates only to validate a configuration never comes here.
        self.queue = self.queue.or_else(|| index::register_queue(host));
        if !self.queue.is_some_and(|queue| host.enqueue(queue.0, WAKE)) {
            self.set_period(host, Some(SHORT_TICK));
        }
    }

    /// Empties the queue, and returns whether the replies make an event.
    fn receive(&mut self, host: &impl Control) -> bool {
        self.queue = self.queue.or_else(|| index::register_queue(host));
        let mut replies = Vec::new();
        while let Some(message) = self.queue.and_then(|queue| host.dequeue(queue.0)) {
            replies.extend(messages::parse_reply(&message));
        }
        !replies.is_empty() && self.worker.receive(host.monotonic_time(), replies)
    }

    /// Handles one event. If another worker has changed the shared value meanwhile, the event is
    /// handled anew, on the new facts.
    fn handle(&mut self, host: &impl Control, event: &Event) {
        for _ in 0..TRIES {
            let (facts, generation) = self.read_facts(host);
            let mut worker = self.worker.clone();
            let effects = worker.on(event.clone(), &facts);
            let is_stored = effects.shared == facts.shared || {
                let text = to_text(&effects.shared);
                host.set_shared_data(&self.key, text.as_bytes(), generation)
            };
            if is_stored {
                self.worker = worker;
                return self.apply(host, effects);
            }
        }
        host.log(Level::Error, "the shared state of the drain cannot be stored");
    }

    fn apply(&mut self, host: &impl Control, effects: Effects) {
        for effect in effects.list {
            self.apply_one(host, effect);
        }
        if self.events.is_empty() {
            self.set_period(host, self.tick);
        }
    }

    fn apply_one(&mut self, host: &impl Control, effect: Effect) {
        match effect {
            Effect::Respond(stream, answer) => answer_request(host, stream, &answer),
            Effect::Call(call) => self.call(host, call),
            Effect::Ask(queue, request) => {
                host.enqueue(queue.0, to_text(&request).as_bytes());
            }
            Effect::NotifyFrames(until) => notify_frame_filters(host, until),
            Effect::CloseLatch | Effect::ExtendLatch | Effect::OpenLatch | Effect::SealLatch => {
                self.move_latch(host, &effect)
            }
            Effect::Revive(queues) => index::write_off(host, self.policy.index(), &queues, None),
            Effect::Forget(queues) => index::remove_from_index(host, self.policy.index(), &queues),
            Effect::Heal { gauges, heals, write_off } => {
                if self.metrics.heal(host, &gauges, heals) {
                    let now = Some(host.monotonic_time());
                    index::write_off(host, self.policy.index(), &write_off, now);
                }
            }
            Effect::StopEnds(began) => stop_ends(host, began),
            Effect::Tick(period) => self.tick = period,
            Effect::Wake => self.wake(host),
            Effect::Log(level, line) => host.log(level, &line),
            Effect::Set(gauge, value) => host.record_metric(self.metrics.of(gauge), value),
            Effect::ShowCount(count) => self.metrics.show_count(host, count),
            Effect::Increment(counter) => host.increment_metric(self.metrics.of(counter), 1),
        }
    }

    fn move_latch(&mut self, host: &impl Control, effect: &Effect) {
        let Some(queue) = self.queue else { return };
        match effect {
            Effect::CloseLatch => drop(self.latch.close(host, queue)),
            Effect::ExtendLatch => drop(self.latch.extend(host, queue)),
            Effect::OpenLatch => self.latch.open(host, queue),
            _ => self.latch.seal(host),
        }
    }

    fn set_period(&mut self, host: &impl Control, period: Option<Millis>) {
        let period = u32::try_from(period.unwrap_or_default().0).unwrap_or(u32::MAX);
        if period != self.period {
            self.period = period;
            host.set_tick_period(period);
        }
    }

    /// Makes a call. One that needs the latch is not made if that may have opened since the counts
    /// were read, because this worker stood still. The end of a call that is not made is an event
    /// of the next callback.
    fn call(&mut self, host: &impl Control, call: Call) {
        let is_closed = || self.queue.is_some_and(|queue| self.latch.extend(host, queue));
        let may_be_made = !call.needs_latch() || is_closed();
        if !(may_be_made && self.calls.send(host, &call, &self.policy)) {
            self.post(host, Event::CallEnded(call, Ended::not_sent()));
        }
    }
}

fn answer_request(host: &impl Control, stream: StreamNumber, answer: &Answer) {
    let StreamNumber(stream) = stream;
    match answer {
        Answer::Status(status) => respond(host, stream, 200, &**status),
        Answer::Streams(listings) => respond(host, stream, 200, &Streams::oldest(listings)),
        Answer::Outcome(status, outcome) => respond(host, stream, *status, outcome),
        Answer::FromEnvoy(status, body) => {
            host.send_http_response(stream, *status, &[("content-type", "text/plain")], body)
        }
    }
}
