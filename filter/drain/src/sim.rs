//! A shell for tests. It reads the facts from its own fields, stores the shared value, keeps the
//! latch, and leaves it to the test when counters reply and calls end.

pub mod expected;

use std::sync::Arc;

use crate::Worker;
use crate::counts::{Counts, Facts, IndexEntry, Latch, Reply, Request, ScopeCounts};
use crate::requests::{Call, Client, Command, Effect, Ended, Event};
use crate::state::timing::LATCH_LEASE;
use crate::state::{CallEnd, DrainPolicy, Millis, Moment, Queue, Scope, Shared, StreamNumber};

/// The gate's own queue.
pub const GATE: Queue = Queue(1);
/// The queue of the counter that is there at the beginning.
pub const COUNTER: Queue = Queue(7);

/// Envoy's answer to a query if nothing is in flight.
pub const IDLE: &str = "http.a.downstream_rq_active: 0\nhttp.a.downstream_rq_total: 0\n\
    http.a.downstream_cx_tx_bytes_buffered: 0\nhttp.a.downstream_cx_http3_active: 0\n\
    server.concurrency: 0\n";

/// See the module.
#[derive(Debug, Clone)]
pub struct Sim {
    /// The gate.
    pub worker: Worker,
    /// The time.
    pub now: Moment,
    /// The value that all workers share.
    pub shared: Shared,
    /// The metrics of streams.
    pub counts: Counts,
    /// The counters.
    pub index: Vec<IndexEntry>,
    /// The latch; whether this gate has closed it follows from [`Self::closed_until`].
    pub latch: Latch,
    /// The time until which this gate holds the latch closed.
    pub closed_until: Option<Moment>,
    /// The last request to each counter that has not replied since.
    pub asked: Vec<(Queue, Request)>,
    /// The calls that have not ended.
    pub calls: Vec<Call>,
    /// The effects of the last event.
    pub effects: Vec<Effect>,
    /// The tick period.
    pub tick: Option<Millis>,
}

impl Sim {
    /// A gate that serves, beside one idle counter.
    pub fn new(policy: DrainPolicy) -> Self {
        let now = Moment(3_600_000);
        let scope = policy.scopes.first().copied().unwrap_or_default();
        Self {
            worker: Worker::new(Arc::new(policy)),
            now,
            shared: Shared::default(),
            counts: Counts {
                scopes: vec![ScopeCounts { scope, ..ScopeCounts::default() }],
                ..Counts::default()
            },
            index: vec![entry(COUNTER, scope)],
            latch: Latch::default(),
            closed_until: None,
            asked: Vec::new(),
            calls: Vec::new(),
            effects: Vec::new(),
            tick: None,
        }
    }

    /// What the gate would read now.
    pub fn facts(&self) -> Facts {
        Facts {
            now: self.now,
            shared: self.shared.clone(),
            counts: Counts { read_at: self.now, ..self.counts.clone() },
            index: self.index.clone(),
            queue: Some(GATE),
            latch: Latch {
                is_held: self.closed_until.is_some(),
                is_closed_by_own: self.is_closed(),
                ..self.latch
            },
            ..Facts::default()
        }
    }

    fn is_closed(&self) -> bool {
        self.closed_until.is_some_and(|until| until > self.now)
    }

    /// Handles one event.
    pub fn on(&mut self, event: Event) {
        let effects = self.worker.on(event, &self.facts());
        self.shared = effects.shared;
        self.effects = effects.list;
        for effect in self.effects.clone() {
            self.apply(effect);
        }
    }

    fn apply(&mut self, effect: Effect) {
        let lease = self.now + LATCH_LEASE;
        match effect {
            Effect::Call(call) => self.calls.push(call),
            Effect::Ask(queue, request) => {
                self.asked.retain(|(other, _)| *other != queue);
                self.asked.push((queue, request));
            }
            Effect::CloseLatch => self.closed_until = Some(lease),
            Effect::ExtendLatch if self.is_closed() => self.closed_until = Some(lease),
            Effect::OpenLatch => self.closed_until = None,
            Effect::SealLatch => {
                (self.latch.is_sealed, self.closed_until) = (true, None);
            }
            Effect::Tick(period) => self.tick = period,
            _ => {}
        }
    }

    /// Handles a request of a client with access.
    pub fn request(&mut self, stream: StreamNumber, command: Command) {
        let client = Client { has_access: true, longest_drain: None };
        self.on(Event::Request { stream, command, client });
    }

    /// The replies of all counters to their last requests. All streams in flight are of the first
    /// counter of their scope.
    pub fn take_replies(&mut self) -> Vec<(Reply, Option<String>)> {
        let mut counts = self.counts.scopes.clone();
        let mut reply = |(queue, request): (Queue, Request)| {
            let entry = self.index.iter().find(|entry| entry.queue == queue)?;
            let own = counts.iter_mut().find(|counts| counts.scope == entry.scope);
            let gauges = own.map(|own| core::mem::take(&mut own.gauges)).unwrap_or_default();
            let Request { round, sent_at, .. } = request;
            let (in_flight, long_lived) = (gauges.in_flight, gauges.long_lived);
            let reply = Reply {
                queue,
                in_flight,
                long_lived,
                round,
                requested_at: sent_at,
                ..Reply::default()
            };
            Some((reply, None))
        };
        core::mem::take(&mut self.asked).into_iter().filter_map(&mut reply).collect()
    }

    /// All counters that were asked reply.
    pub fn reply(&mut self) {
        let replies = self.take_replies();
        if !replies.is_empty() && self.worker.receive(self.now, replies) {
            self.on(Event::Message);
        }
    }

    /// Ends the call at this place.
    pub fn end_call(&mut self, index: usize, end: CallEnd, body: &str) {
        let call = self.calls.remove(index);
        self.on(Event::CallEnded(call, Ended { end, body: body.into() }));
    }

    /// Whether Envoy is being queried.
    pub fn query(&self) -> Option<usize> {
        self.calls.iter().position(|call| matches!(call, Call::Stats { .. }))
    }

    /// Ends the query with this answer.
    pub fn answer_query(&mut self, body: &str) {
        if let Some(query) = self.query() {
            self.end_call(query, CallEnd::Answered(200), body);
        }
    }

    /// Ends all calls with success. Envoy has nothing in flight.
    pub fn answer_calls(&mut self) {
        while !self.calls.is_empty() {
            self.end_call(0, CallEnd::Answered(200), IDLE);
        }
    }
}

/// A counter that has been there for long.
pub fn entry(queue: Queue, scope: Scope) -> IndexEntry {
    IndexEntry { queue, scope, since: Moment(1), written_off: None }
}
