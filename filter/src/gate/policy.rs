//! The checked configuration of a gate: the drain's policy, and what only the shell needs.

use std::sync::Arc;

use laststream_drain::state::{EndPolicy, Kinds, Millis, Policy as DrainPolicy, StreamKind};
use laststream_drain::timing::END_SLACK;

use crate::config::wire::{App, BeginCall, End, EndKind, Gate, LongLivedPolicy, Notify};

/// The fields are described in [`crate::config::wire`].
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    pub(crate) drain: Arc<DrainPolicy>,
    pub(crate) inbound_only: bool,
    pub(crate) agent: String,
    pub(crate) app: Option<App>,
    pub(crate) notify: Option<Notify>,
    pub(crate) secret: Option<String>,
    pub(crate) secret_key: Option<String>,
    pub(crate) hosts: Vec<String>,
}

impl Policy {
    pub(crate) fn new(wire: Gate) -> Self {
        let end = end_policy(&wire);
        let drain = DrainPolicy {
            end,
            scopes: wire.scopes,
            quiet: Millis(wire.quiet_ms),
            linger: Millis(wire.linger_ms),
            deadline: Millis(wire.deadline_ms),
            open_for: Millis(wire.open_ms),
            assumed_after: Millis(wire.assumed_after_ms),
            delay: Millis(wire.begin.delay_ms),
            patience: Millis(wire.admin.timeout_ms),
            exempts_long_lived: wire.long_lived == LongLivedPolicy::Exempt,
            long_lived_after: wire.long_lived_after_ms.map(Millis),
            begin: wire.begin.call,
            finish: wire.finish,
            admin: wire.admin.cluster,
            ignore: wire.admin.ignore,
            tunnels: wire.admin.tunnels,
            waits_for_app: wire.app.is_some(),
            notify_patience: wire.notify.as_ref().map(|notify| Millis(notify.timeout_ms)),
            evaluate_every: wire.evaluate_every_ms.map(Millis),
        };
        Self {
            drain: Arc::new(drain),
            inbound_only: wire.begin.inbound_only,
            agent: wire.admin.agent_cluster,
            app: wire.app,
            notify: wire.notify,
            secret: wire.secret,
            secret_key: wire.secret_key,
            hosts: wire.hosts.iter().map(|name| name.trim_end_matches('.').into()).collect(),
        }
    }

    /// The path of the call that tells clients to leave.
    pub(crate) fn begin_path(&self) -> &'static str {
        match (self.drain.begin, self.inbound_only) {
            (BeginCall::FailHealthChecks, _) => "/healthcheck/fail",
            (_, true) => "/drain_listeners?inboundonly&graceful&skip_exit",
            (_, false) => "/drain_listeners?graceful&skip_exit",
        }
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
    let before = over.min(Millis(gate.deadline_ms) - delay);
    EndPolicy {
        kinds,
        changing: end.changing,
        retry_after: [end.retry_after_s.from, end.retry_after_s.to],
        grace,
        over,
        before_deadline: end.before_deadline_ms.map_or(before, Millis),
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
