//! The HTTP calls of a gate that are not answered yet.

use laststream_drain::requests::{CLUSTERS, Call, QUIT};
use laststream_drain::state::{BeginCall, Finish, Millis};
use laststream_drain::timing::AGENT_PATIENCE;

use super::policy::GatePolicy;
use crate::host::Control;

/// The call that makes routes refuse new requests, by [`super::LATCH`].
pub const REFUSE: &str = "/runtime_modify?laststream.latch=100";
/// The call that lets them pass.
pub const LET_PASS: &str = "/runtime_modify?laststream.latch=0";

/// The cluster, method, path and time limit of a call; none if the configuration has none.
fn target<'t>(
    call: &'t Call,
    GatePolicy { drain, wire }: &'t GatePolicy,
) -> Option<(&'t str, &'t str, &'t str, Millis)> {
    let (admin, patience) = (&*drain.admin, drain.patience);
    Some(match call {
        Call::Begin => {
            (admin, "POST", begin_path(wire.begin.call, wire.begin.inbound_only), patience)
        }
        Call::Cancel { .. } | Call::UndoAgain => (admin, "POST", "/healthcheck/ok", patience),
        Call::Finish if drain.finish == Finish::DrainAgent => {
            (&wire.admin.agent_cluster, "POST", "/drain", patience)
        }
        Call::Finish => (admin, "POST", QUIT, patience),
        Call::Signal { signal, .. } => (admin, "POST", signal.path(), patience),
        Call::Stats { path, .. } => (admin, "GET", path, drain.stats_patience()),
        Call::Clusters { .. } => (admin, "GET", CLUSTERS, drain.stats_patience()),
        Call::App => {
            let app = wire.app.as_ref()?;
            (&app.cluster, "GET", &app.path, patience)
        }
        Call::Routes { refuse, .. } => {
            (admin, "POST", if *refuse { REFUSE } else { LET_PASS }, patience)
        }
        // The path of another method: only the agent answers it with 405.
        Call::Agent { .. } => (&wire.admin.agent_cluster, "GET", "/drain", AGENT_PATIENCE),
        Call::Notify { .. } => {
            let app = wire.notify.as_ref()?;
            (&app.cluster, "POST", &app.path, Millis(app.timeout_ms))
        }
    })
}

/// The path of the call that tells clients to leave.
fn begin_path(call: BeginCall, inbound_only: bool) -> &'static str {
    match (call, inbound_only) {
        (BeginCall::FailHealthChecks, _) => "/healthcheck/fail",
        (_, true) => "/drain_listeners?inboundonly&graceful&skip_exit",
        (_, false) => "/drain_listeners?graceful&skip_exit",
    }
}

/// The calls that Envoy has not answered yet, by their numbers.
#[derive(Debug, Clone, Hash)]
pub(super) struct Calls {
    root: u32,
    pending: Vec<(u32, Call)>,
}

impl Calls {
    pub(super) fn new(root: u32) -> Self {
        Self { root, pending: Vec::new() }
    }

    /// Makes a call in the root context, because the HTTP context may end before the answer. False:
    /// Envoy does not know the cluster, or the cluster has no healthy endpoint.
    pub(super) fn send(&mut self, host: &impl Control, call: &Call, policy: &GatePolicy) -> bool {
        let Some((cluster, method, path, patience)) = target(call, policy) else { return false };
        host.set_effective_context(self.root);
        let number = host.dispatch_http_call(cluster, method, path, patience.0);
        number.map(|number| self.pending.push((number, call.clone()))).is_some()
    }

    /// Removes the call with this number.
    pub(super) fn take(&mut self, number: u32) -> Option<Call> {
        let index = self.pending.iter().position(|(other, _)| *other == number)?;
        Some(self.pending.swap_remove(index).1)
    }

    pub(super) fn any(&self, predicate: impl Fn(&Call) -> bool) -> bool {
        self.pending.iter().any(|(_, call)| predicate(call))
    }
}
