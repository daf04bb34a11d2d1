//! The checked configuration of a gate: the drain's policy, and what only the shell needs.

use std::sync::Arc;

use laststream_drain::state::{DrainPolicy, EndPolicy, Kinds, Millis, StreamKind};
use laststream_drain::timing::END_SLACK;

use crate::census::index::Index;
use crate::config::wire::{End, EndKind, Gate, GateCount, LongLivedPolicy, Starts};

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct GatePolicy {
    pub(crate) drain: Arc<DrainPolicy>,
    /// All of it, as it is written.
    pub(crate) wire: Gate,
}

impl GatePolicy {
    pub(crate) fn new(wire: Gate) -> Self {
        let drain = DrainPolicy {
            scopes: wire.scopes.clone(),
            quiet: Millis(wire.quiet_ms),
            linger: Millis(wire.linger_ms),
            deadline: Millis(wire.deadline_ms),
            open_for: Millis(wire.open_ms),
            assumed_after: Millis(wire.assumed_after_ms),
            delay: Millis(wire.begin.delay_ms),
            patience: Millis(wire.admin.timeout_ms),
            exempts_long_lived: wire.long_lived == LongLivedPolicy::Exempt,
            long_lived_after: wire.long_lived_after_ms.map(Millis),
            by_envoy: wire.count == GateCount::Envoy,
            counts_tcp: wire.tcp,
            watches_agent: wire.starts == Starts::Agent,
            begin: wire.begin.call,
            finish: wire.finish,
            admin: wire.admin.cluster.clone(),
            ignore: wire.admin.ignore.clone(),
            tunnels: wire.admin.tunnels.clone(),
            waits_for_app: wire.app.is_some(),
            notify_patience: wire.notify.as_ref().map(|notify| Millis(notify.timeout_ms)),
            end: end_policy(&wire),
            evaluate_every: wire.evaluate_every_ms.map(Millis),
        };
        Self { drain: Arc::new(drain), wire }
    }

    /// The index of those that reply to this gate.
    pub(super) fn index(&self) -> Index {
        if self.drain.by_envoy { Index::BEATS } else { Index::COUNTERS }
    }
}

/// The streams that a drain ends.
pub(crate) fn end_policy(gate: &Gate) -> EndPolicy {
    let end = gate.end.clone().unwrap_or_default();
    let kinds = Kinds::of(&ended_kinds(&end));
    let delay = Millis(gate.begin.delay_ms);
    let grace = Millis(end.websocket_grace_ms);
    let closing = if kinds.contains(StreamKind::Websocket) { grace } else { Millis(0) };
    let over = Millis(end.over_ms);
    let start = over.min(Millis(gate.deadline_ms) - delay);
    EndPolicy {
        kinds,
        changing: end.changing,
        retry_after: [end.retry_after_s.from, end.retry_after_s.to],
        grace,
        over,
        before_deadline: end.before_deadline_ms.map_or(start, Millis),
        at_age: end.at_age_ms.map(Millis),
        reserve: Millis(gate.quiet_ms.max(gate.linger_ms)) + closing + END_SLACK,
        delay,
    }
}

pub(crate) fn ended_kinds(end: &End) -> Vec<StreamKind> {
    use StreamKind::{EventStream, Grpc, Other, Waiting, Websocket};
    [
        (Waiting, end.waiting),
        (Websocket, end.websocket),
        (Grpc, end.grpc),
        (EventStream, end.event_stream),
        (Other, end.other),
    ]
    .into_iter()
    .filter(|(_, what)| *what == EndKind::End)
    .map(|(kind, _)| kind)
    .collect()
}
