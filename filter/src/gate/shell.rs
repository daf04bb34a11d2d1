//! The shell of the drain's protocol, on one worker: in each callback it reads the facts, calls
//! [`Worker::on`] once, stores the record and applies the effects. It decides nothing.
//!
//! Requests are enqueued in the callback of their HTTP context, and handled in one of the root
//! context: the SDK passes the answer of a call to the context in whose callback the call was made,
//! and drops it if that context has gone.

use std::collections::VecDeque;
use std::sync::Arc;

use laststream_drain::effects::{Answer, Call, Effect, Effects, IndexChange};
use laststream_drain::ends::EndProgress;
use laststream_drain::event::{Ended, Event};
use laststream_drain::messages::Reply;
use laststream_drain::step::{CallEnd, Step};
use laststream_drain::timing::{DEAD_AFTER, LATCH_SLACK, SHORT_TICK};
use laststream_drain::{FROM_THE_APP, Worker};

use super::access::{ConnectionProperties, access_refusal, browser_refusal, refusal_body};
use super::calls::Calls;
use super::facts::Sources;
use super::http::{RequestError, is_of_hook, needs_access, parse_command};
use super::metrics::{Metrics, level};
use super::policy::Policy;
use super::replies::{Details, Outcome, Status, Streams, json, respond_json};
use super::shared::{self, Keys, Notification, Total};
use crate::census::frames::{FrameNotice, notify_frame_filters};
use crate::census::latch::Latch;
use crate::census::stream_ender::stop_ends;
use crate::census::{index, messages};
use crate::config::Fault;
use crate::headers::Headers;
use crate::host::{Control, Kind, Level};
use crate::metrics::{self as names, define};
use crate::shared_text::{self, SharedText as _};

/// The message that the gate sends to its own queue. No reply of a counter has this text.
const WAKE: &[u8] = b"wake";
/// The most tries to store the record. There are fewer workers that could change it meanwhile.
const TRIES: usize = 1_000;

/// The gate of one worker.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    pub(super) policy: Policy,
    pub(super) keys: Keys,
    pub(super) metrics: Metrics,
    pub(super) latch: Latch,
    pub(super) worker: Worker,
    pub(super) calls: Calls,
    /// The gate's own queue, which also identifies the gate among those of other workers.
    pub(super) queue: Option<u32>,
    /// Requests, and ends of calls that could not be made: each waits for a callback of the root
    /// context.
    pub(super) events: VecDeque<Event>,
    /// The tick period that the protocol wants, and the one that Envoy has.
    tick: u64,
    period: u32,
    /// Whether a gRPC request was reset, which is logged once.
    has_reset_grpc: bool,
}

// === callbacks ===

impl Gate {
    /// # Errors
    /// The metric that Envoy does not define.
    pub(crate) fn new(host: &impl Control, root: u32, policy: Policy) -> Result<Self, Fault> {
        let drain = Arc::clone(&policy.drain);
        let closing = define(host, Kind::Gauge, names::CLOSING.into())?;
        let mut gate = Self {
            metrics: Metrics::define(host, &drain.scopes, drain.deadline / 1_000)?,
            keys: Keys::of_this_filter(host, &drain.scopes),
            latch: Latch::new(closing),
            worker: Worker::new(drain),
            policy,
            calls: Calls::new(root),
            queue: None,
            events: VecDeque::new(),
            tick: 0,
            period: 0,
            has_reset_grpc: false,
        };
        // A drain that began before this configuration goes on under it.
        gate.handle(host, &Event::Configured, &[]);
        Ok(gate)
    }

    pub(crate) fn on_tick(&mut self, host: &impl Control) {
        let every = self.policy.evaluate_every;
        let event = self.events.pop_front().unwrap_or_else(|| {
            let is_due = every > 0
                && self.worker.is_idle()
                && self.keys.claim_periodic_evaluation(host, every);
            if is_due { Event::PeriodicEvaluation } else { Event::Tick }
        });
        self.handle_with_replies(host, &event);
    }

    /// Handles a message: the gate's own, or a counter's reply. Envoy calls this once for each
    /// message.
    pub(crate) fn on_queue_ready(&mut self, host: &impl Control, queue: u32) {
        if self.queue == Some(queue) {
            let event = self.events.pop_front().unwrap_or(Event::Message);
            self.handle_with_replies(host, &event);
        }
    }

    /// Refuses the request here, while its headers and its connection can be read, or enqueues its
    /// command for the root context.
    #[inline(never)] // keeps this code out of the path of every stream
    pub(crate) fn on_request_headers(&mut self, host: &impl Control, stream: u32, map: &[u8]) {
        let headers = Headers::new(map);
        if headers.is_grpc() {
            return self.reset_grpc(host, stream);
        }
        let text = |name| String::from_utf8_lossy(headers.first(name).unwrap_or_default());
        let connection = ConnectionProperties::read(host, &self.policy);
        let access = connection.access(&self.policy);
        if let Some(why) = browser_refusal(headers, &access) {
            return respond_json(host, stream, 403, &refusal_body(why));
        }
        match parse_command(&text(":method"), &text(":path")) {
            Ok(command) => {
                let path = headers.first(":path").unwrap_or_default();
                let refusal = access_refusal(headers, path, &command, &access);
                if let Some(why) = refusal.filter(|_| needs_access(&command)) {
                    return respond_json(host, stream, 403, &refusal_body(why));
                }
                if is_of_hook(&command) {
                    self.follow_grace_period(host);
                }
                let has_access = refusal.is_none();
                self.post(host, Event::Request { stream, command, has_access });
            }
            Err(error) => self.reject_request(host, stream, error),
        }
    }

    fn reject_request(&self, host: &impl Control, stream: u32, error: RequestError) {
        let record: laststream_drain::record::Record = shared_text::read(host, &self.keys.record);
        let body = |reason: &str| {
            json(&Outcome { state: record.phase, reason: reason.into(), holding: None })
        };
        match error {
            RequestError::Path => {
                respond_json(host, stream, 404, &body("there is no such path; see /status"))
            }
            RequestError::Query(why) => respond_json(host, stream, 400, &body(why)),
            RequestError::Method(allow) => {
                let headers = [("content-type", "application/json"), ("allow", allow)];
                let body = body("this path takes other methods");
                host.send_http_response(stream, 405, &headers, &body);
            }
        }
    }

    /// Resets a gRPC request. Envoy turns every answer of a filter to it into HTTP 200, and a
    /// client that polls for 200 would take a refusal for success.
    fn reset_grpc(&mut self, host: &impl Control, stream: u32) {
        if !core::mem::replace(&mut self.has_reset_grpc, true) {
            host.log(
                Level::Warning,
                "a gRPC request was cut: Envoy would answer 200, whatever the gate says",
            );
        }
        host.reset_stream(stream);
    }

    /// Forgets a request that was answered, or whose client has gone.
    #[inline(never)] // as above
    pub(crate) fn on_stream_end(&mut self, host: &impl Control, gone: u32) {
        self.events
            .retain(|event| !matches!(event, Event::Request { stream, .. } if *stream == gone));
        self.handle(host, &Event::StreamGone(gone), &[]);
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
        let ended = Ended {
            end: CallEnd::from_status(status),
            is_from_upstream: is_answered
                && call == Call::App
                && host.call_response_header(FROM_THE_APP).is_some(),
            body: String::from_utf8_lossy(&host.call_response_body(body_size)).into_owned(),
        };
        if matches!(call, Call::Stats { .. }) {
            shared::end_query(host);
        }
        self.handle_with_replies(host, &Event::CallEnded(call, ended));
    }

    /// Envoy replaces or removes the configuration, and drops the answers to all calls. A signal to
    /// end that was sent may have arrived.
    pub(crate) fn on_delete(&mut self, host: &impl Control) {
        if self.calls.any(|call| matches!(call, Call::Stats { .. })) {
            shared::end_query(host);
        }
        let ends_envoy = self.calls.any(Call::ends_envoy);
        self.handle(host, &Event::Deleted { ends_envoy }, &[]);
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
        if !self.queue.is_some_and(|queue| host.enqueue(queue, WAKE)) {
            self.set_period(host, SHORT_TICK);
        }
    }

    fn handle_with_replies(&mut self, host: &impl Control, event: &Event) {
        self.queue = self.queue.or_else(|| index::register_queue(host));
        let mut replies = Vec::new();
        while let Some(message) = self.queue.and_then(|queue| host.dequeue(queue)) {
            replies.extend(messages::parse_reply(&message));
        }
        self.handle(host, event, &replies);
    }

    /// Handles one event. If another worker has changed the record meanwhile, the event is handled
    /// anew, on the new facts.
    fn handle(&mut self, host: &impl Control, event: &Event, replies: &[(Reply, Option<String>)]) {
        for _ in 0..TRIES {
            let Self { policy, keys, metrics, latch, queue, .. } = &*self;
            let sources = Sources { policy, keys, metrics, latch, queue: *queue };
            let (facts, generation) = sources.read(host, replies);
            let mut worker = self.worker.clone();
            let effects = worker.on(event.clone(), &facts);
            let is_stored = effects.record == facts.record || {
                let text = effects.record.to_text();
                host.set_shared_data(&self.keys.record, text.as_bytes(), generation)
            };
            if is_stored {
                self.worker = worker;
                return self.apply(host, effects);
            }
        }
        host.log(Level::Error, "the shared record of the drain cannot be stored");
    }

    fn apply(&mut self, host: &impl Control, effects: Effects) {
        let Effects { record, view, list } = effects;
        let mut status = None;
        for effect in list {
            match effect {
                Effect::Respond(stream, answer) => {
                    let Some(view) = &view else { continue };
                    let (state, holding) = (record.phase, Some(view.observed.holding));
                    match answer {
                        Answer::Status => {
                            let body = status.get_or_insert_with(|| {
                                json(&Status::new(
                                    &self.policy.drain,
                                    view,
                                    Details::read(host, &self.metrics),
                                ))
                            });
                            respond_json(host, stream, 200, body);
                        }
                        Answer::Streams { listings, is_complete, limit } => {
                            let streams = Streams::oldest(view, &listings, is_complete, limit);
                            respond_json(host, stream, 200, &json(&streams));
                        }
                        Answer::Outcome(status, reason) => {
                            let body = json(&Outcome { state, reason, holding });
                            respond_json(host, stream, status, &body);
                        }
                        Answer::FromEnvoy(status, body) => {
                            let headers = [("content-type", "text/plain")];
                            host.send_http_response(stream, status, &headers, &body);
                        }
                    }
                }
                other => self.apply_one(host, other),
            }
        }
        if self.events.is_empty() {
            let period = if self.tick == 0 { self.policy.evaluate_every } else { self.tick };
            self.set_period(host, period);
        }
    }

    fn apply_one(&mut self, host: &impl Control, effect: Effect) {
        match effect {
            Effect::Respond(..) => {}
            Effect::Call(call) => self.call(host, call),
            Effect::Ask(queue, request) => {
                host.enqueue(queue, messages::request_to_text(&request).as_bytes());
            }
            Effect::NotifyFrames(until) => notify_frame_filters(host, FrameNotice { until }),
            Effect::CloseLatch(until) => {
                if let Some(queue) = self.queue {
                    self.latch.close(host, queue, until);
                }
            }
            Effect::OpenLatch => {
                if let Some(queue) = self.queue {
                    self.latch.open(host, queue);
                }
            }
            Effect::SealLatch => self.latch.seal(host),
            Effect::ChangeIndex(IndexChange::Revive, queues) => index::revive(host, &queues),
            Effect::ChangeIndex(IndexChange::Remove, queues) => {
                index::remove_from_index(host, &queues)
            }
            Effect::Heal { gauges, heals, write_off } => {
                if self.metrics.heal(host, &gauges, heals) {
                    index::write_off(host, &write_off, host.monotonic_time());
                }
            }
            Effect::ShareTotal(at, requests) => {
                shared_text::update(host, &self.keys.total, &mut |total: &mut Total| {
                    if at >= total.at {
                        *total = Total { at, requests };
                    }
                });
            }
            Effect::Order { from, to, orders, line } => {
                let is_claimed = shared::replace(host, &self.keys.ends, &from, to);
                if let Some(line) = line.filter(|_| is_claimed) {
                    host.log(Level::Warning, &line);
                }
                for (queue, mut request) in orders {
                    if let Some(order) = request.order.as_mut().filter(|_| !is_claimed) {
                        order.count = 0;
                    }
                    host.enqueue(queue, messages::request_to_text(&request).as_bytes());
                }
            }
            Effect::StopEnds(began) => {
                shared_text::update(host, &self.keys.ends, &mut |ends: &mut EndProgress| {
                    ends.stopped = ends.stopped.max(began);
                });
                stop_ends(host, began);
            }
            Effect::Notify { began, from, to } => self.notify(host, began, from, to),
            Effect::Tick(tick) => self.tick = tick,
            Effect::Wake => self.wake(host),
            Effect::Log(severity, line) => host.log(level(severity), &line),
            Effect::Set(gauge, value) => self.metrics.set(host, gauge, value),
            Effect::Increment(counter) => self.metrics.increment(host, counter),
        }
    }

    fn set_period(&mut self, host: &impl Control, period: u64) {
        let period = u32::try_from(period).unwrap_or(u32::MAX);
        if period != self.period {
            self.period = period;
            host.set_tick_period(period);
        }
    }

    /// Makes a call. The end of one that cannot be made is an event of the next callback.
    fn call(&mut self, host: &impl Control, call: Call) {
        let is_query = matches!(call, Call::Stats { .. });
        let needs_latch = matches!(call, Call::Finish | Call::Signal { is_latched: true, .. });
        let is_prevented = is_query
            && !shared::begin_query(host, self.policy.drain.stats_patience())
            || needs_latch && !self.extend_latch(host);
        let end = if is_prevented {
            CallEnd::NotMade
        } else if self.calls.send(host, &call, &self.policy) {
            return;
        } else {
            if is_query {
                shared::end_query(host);
            }
            CallEnd::Refused
        };
        self.post(host, Event::CallEnded(call, Ended::without_answer(end)));
    }

    /// Keeps the latch closed for the call behind it. False: it may have opened since the counts
    /// were read, because this worker stood still.
    fn extend_latch(&self, host: &impl Control) -> bool {
        let time = self.policy.drain.patience.saturating_add(DEAD_AFTER + LATCH_SLACK);
        self.queue.is_some_and(|queue| self.latch.extend(host, queue, time))
    }

    fn notify(&mut self, host: &impl Control, began: u64, from: Step, to: Step) {
        let is_own =
            shared_text::claim(host, &self.keys.notify, &mut |shared: &mut Notification| {
                let is_own = shared.began <= began && shared.step_of(began) == from;
                if is_own {
                    *shared = Notification { began, step: to };
                }
                is_own
            });
        if is_own && matches!(to, Step::UnderWay { since: 1.., .. }) {
            self.call(host, Call::Notify { began });
        }
    }
}
