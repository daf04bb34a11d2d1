//! The checked configuration of a gate: the drain's policy, and what only the shell needs.

use std::sync::Arc;

use laststream_drain::ends::EndPolicy;
use laststream_drain::kinds::{Kinds, StreamKind};
use laststream_drain::policy::Policy as DrainPolicy;
use laststream_drain::timing::END_SLACK;

use crate::config::wire::{App, BeginCall, End, EndKind, Gate, LongLivedPolicy, Notify};

/// The fields are described in [`crate::config::wire`].
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    pub(crate) drain: Arc<DrainPolicy>,
    /// 0: the gate evaluates only when something needs it.
    pub(crate) evaluate_every: u64,
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
            quiet: wire.quiet_ms,
            linger: wire.linger_ms,
            deadline: wire.deadline_ms,
            open_for: wire.open_ms,
            assumed_after: wire.assumed_after_ms,
            delay: wire.begin.delay_ms,
            patience: wire.admin.timeout_ms,
            exempts_long_lived: wire.long_lived == LongLivedPolicy::Exempt,
            long_lived_after: wire.long_lived_after_ms,
            begin: wire.begin.call,
            finish: wire.finish,
            admin: wire.admin.cluster,
            ignore: wire.admin.ignore,
            tunnels: wire.admin.tunnels,
            waits_for_app: wire.app.is_some(),
            notify_patience: wire.notify.as_ref().map(|notify| notify.timeout_ms),
        };
        Self {
            drain: Arc::new(drain),
            evaluate_every: wire.evaluate_every_ms.unwrap_or_default(),
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
    let delay = gate.begin.delay_ms;
    let grace = if kinds.contains(StreamKind::Websocket) { end.websocket_grace_ms } else { 0 };
    let before = end.over_ms.min(gate.deadline_ms.saturating_sub(delay));
    EndPolicy {
        kinds,
        changing: end.changing,
        retry_after: [end.retry_after_s.from, end.retry_after_s.to],
        grace: end.websocket_grace_ms,
        over: end.over_ms,
        before_deadline: end.before_deadline_ms.unwrap_or(before),
        at_age: end.at_age_ms,
        reserve: gate.quiet_ms.max(gate.linger_ms).saturating_add(grace + END_SLACK),
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
