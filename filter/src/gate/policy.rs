//! The checked configuration of a gate. Times are in milliseconds.

use super::calls::Target;
pub(crate) use super::ends::{EndPolicy, SHORTEST};
use super::stats::ConnectionManagers;
use crate::config::wire::{App, BeginCall, Finish, Gate, LongLivedPolicy, Notify, Scope};

/// The fields are described in [`crate::config::wire`].
#[derive(Debug, Clone)]
pub struct Policy {
    pub(crate) scopes: Vec<Scope>,
    pub(crate) quiet: u64,
    pub(crate) linger: u64,
    pub(crate) deadline: u64,
    pub(crate) open_for: u64,
    pub(crate) assumed_after: u64,
    /// 0: the gate evaluates only when something needs it.
    pub(crate) evaluate_every: u64,
    pub(crate) delay: u64,
    pub(crate) patience: u64,
    pub(crate) exempts_long_lived: bool,
    pub(crate) long_lived_after: Option<u64>,
    pub(crate) begin: BeginCall,
    pub(crate) inbound_only: bool,
    pub(crate) finish: Finish,
    pub(crate) admin: String,
    pub(crate) agent: String,
    pub(crate) ignore: Vec<String>,
    pub(crate) tunnels: Vec<String>,
    pub(crate) app: Option<App>,
    pub(crate) notify: Option<Notify>,
    pub(crate) secret: Option<String>,
    pub(crate) secret_key: Option<String>,
    pub(crate) hosts: Vec<String>,
    pub(crate) end: EndPolicy,
}

/// The time limit of a query for statistics, as a multiple of that of other calls, because Envoy
/// goes through all its statistics.
const STATS_PATIENCE: u64 = 10;

impl Policy {
    pub(crate) fn new(wire: Gate) -> Self {
        let end = EndPolicy::new(&wire);
        Self {
            end,
            scopes: wire.scopes,
            quiet: wire.quiet_ms,
            linger: wire.linger_ms,
            deadline: wire.deadline_ms,
            open_for: wire.open_ms,
            assumed_after: wire.assumed_after_ms,
            evaluate_every: wire.evaluate_every_ms.unwrap_or_default(),
            delay: wire.begin.delay_ms,
            patience: wire.admin.timeout_ms,
            exempts_long_lived: wire.long_lived == LongLivedPolicy::Exempt,
            long_lived_after: wire.long_lived_after_ms,
            begin: wire.begin.call,
            inbound_only: wire.begin.inbound_only,
            finish: wire.finish,
            admin: wire.admin.cluster,
            agent: wire.admin.agent_cluster,
            ignore: wire.admin.ignore,
            tunnels: wire.admin.tunnels,
            app: wire.app,
            notify: wire.notify,
            secret: wire.secret,
            secret_key: wire.secret_key,
            hosts: wire.hosts.iter().map(|name| name.trim_end_matches('.').into()).collect(),
        }
    }

    /// A call to Envoy's admin interface.
    pub(super) fn admin_call<'t>(&'t self, method: &'t str, path: &'t str) -> Target<'t> {
        Target { cluster: &self.admin, method, path, patience: self.patience }
    }

    /// A query for statistics.
    pub(super) fn stats_query<'t>(&'t self, path: &'t str) -> Target<'t> {
        let patience = self.patience.saturating_mul(STATS_PATIENCE);
        Target { patience, ..self.admin_call("GET", path) }
    }

    /// The connection managers of Envoy that matter to the gate.
    pub(super) fn connection_managers(&self) -> ConnectionManagers<'_> {
        ConnectionManagers { scopes: &self.scopes, ignore: &self.ignore, tunnels: &self.tunnels }
    }

    pub(crate) fn begins(&self) -> bool {
        self.begin != BeginCall::Nothing
    }

    pub(crate) fn finishes(&self) -> bool {
        self.finish != Finish::Nothing
    }

    pub(crate) fn waits_for_app(&self) -> bool {
        self.app.is_some()
    }

    /// The tick period of a gate that has nothing to do; 0 for none.
    pub(super) fn idle_tick(&self) -> u32 {
        u32::try_from(self.evaluate_every).unwrap_or_default()
    }

    /// The path of the call that tells clients to leave.
    pub(crate) fn begin_path(&self) -> &'static str {
        match (self.begin, self.inbound_only) {
            (BeginCall::FailHealthChecks, _) => "/healthcheck/fail",
            (_, true) => "/drain_listeners?inboundonly&graceful&skip_exit",
            (_, false) => "/drain_listeners?graceful&skip_exit",
        }
    }

    /// The path of the call that undoes the begin call, if there is one.
    pub(crate) fn undo_path(&self) -> Option<&'static str> {
        (self.begin == BeginCall::FailHealthChecks).then_some("/healthcheck/ok")
    }
}
