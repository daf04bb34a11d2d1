//! The HTTP calls of a gate that are not answered yet.

use laststream_drain::counts::{ALL, GAUGES};
use laststream_drain::requests::{Call, QUIT};
use laststream_drain::state::{Finish, Millis};

use super::policy::Policy;
use crate::host::Control;

/// The receiver of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'t> {
    cluster: &'t str,
    method: &'t str,
    path: &'t str,
    /// The time limit of the call.
    patience: Millis,
}

impl<'t> Target<'t> {
    /// The receiver of this call; none if the configuration has none.
    pub(super) fn of(call: &'t Call, policy: &'t Policy) -> Option<Self> {
        let patience = policy.drain.patience;
        let to_admin =
            |path| Some(Self { cluster: &policy.drain.admin, method: "POST", path, patience });
        match call {
            Call::Begin => to_admin(policy.begin_path()),
            Call::Cancel { .. } | Call::UndoAgain => to_admin("/healthcheck/ok"),
            Call::Finish if policy.drain.finish == Finish::DrainAgent => {
                Some(Self { cluster: &policy.agent, method: "POST", path: "/drain", patience })
            }
            Call::Finish => to_admin(QUIT),
            Call::Signal { signal, .. } => to_admin(signal.path()),
            Call::Stats { with_totals, .. } => {
                let path = if *with_totals { ALL } else { GAUGES };
                let patience = policy.drain.stats_patience();
                Some(Self { cluster: &policy.drain.admin, method: "GET", path, patience })
            }
            Call::App => {
                let app = policy.app.as_ref()?;
                Some(Self { cluster: &app.cluster, method: "GET", path: &app.path, patience })
            }
            Call::Notify { .. } => {
                let app = policy.notify.as_ref()?;
                let patience = Millis(app.timeout_ms);
                Some(Self { cluster: &app.cluster, method: "POST", path: &app.path, patience })
            }
        }
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
    pub(super) fn send(&mut self, host: &impl Control, call: &Call, policy: &Policy) -> bool {
        let Some(Target { cluster, method, path, patience }) = Target::of(call, policy) else {
            return false;
        };
        host.set_effective_context(self.root);
        let number = host.dispatch_http_call(cluster, method, path, patience.0);
        number.map(|number| self.pending.push((number, call.clone()))).is_some()
    }

    /// Removes the call with this number.
    pub(super) fn take(&mut self, number: u32) -> Option<Call> {
        let index = self.pending.iter().position(|(other, _)| *other == number)?;
        Some(self.pending.swap_remove(index).1)
    }

    pub(super) fn any(&self, is_such: impl Fn(&Call) -> bool) -> bool {
        self.pending.iter().any(|(_, call)| is_such(call))
    }
}
