//! A configuration of the model: its streams and requests, and how often each event may happen.

use laststream_drain::timing::DEAD_AFTER;

use crate::config::wire::Scope;

/// The way in which Envoy and the filter treat a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Plain,
    /// Counted as long-lived.
    Long,
    /// A rule excludes it from the count.
    Excluded,
    /// The stream never reaches the filter: another listener, an earlier filter, a disabled route.
    Uncounted,
}

/// One stream, which begins at most once.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamPlan {
    pub(super) worker: usize,
    pub(super) scope: Scope,
    pub(super) kind: Kind,
}

/// A request to a gate, which is sent at most once.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestPlan {
    pub(super) worker: usize,
    pub(super) gate: usize,
    pub(super) method: &'static str,
    pub(super) path: &'static str,
}

impl RequestPlan {
    /// Whether a 200 means that the gate is open.
    pub(super) fn asks_for_opening(&self) -> bool {
        self.path.starts_with("/prestop") || self.path == "/ready"
    }

    /// Whether the request begins a drain of its gate, or forces it open.
    pub(super) fn may_open(&self) -> bool {
        self.path.starts_with("/prestop")
            || self.path.starts_with("/force")
            || self.path == "/drain" && self.method == "POST"
    }

    /// Whether the request cancels the drain of its gate.
    pub(super) fn cancels(&self) -> bool {
        self.path == "/drain" && self.method == "DELETE"
    }
}

/// The way in which a call to the admin interface fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// Envoy does not make the call.
    Refused,
    /// Status 503: the call has not arrived.
    Unavailable,
    /// Its time is over. It has arrived, if it is a signal.
    TimedOut,
    /// The answer is broken off. The call has arrived.
    Reset,
    /// Status 200, and no body.
    Empty,
    /// Status 200, and a body that is not of Envoy.
    Foreign,
}

/// A state that must be reachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    Drained,
    /// A client gets the answer that the gate is open.
    Open,
    /// A signal passes behind the latch.
    Passed,
    Healed,
    /// A gauge that was below zero is right again, and the last request got the answer that the
    /// gate is open.
    Repaired,
    Expired,
    /// The gate serves again after a drain.
    ServingAgain,
    /// The latch refuses a stream.
    Refused,
}

#[derive(Debug, Clone)]
pub(super) struct Setup {
    /// The scope of each gate; each has a record of its own.
    pub(super) gates: Vec<Scope>,
    pub(super) exempts: bool,
    /// The value of `begin.call`.
    pub(super) begin: &'static str,
    /// The value of `finish` of the first gate; the others make no last call.
    pub(super) finish: &'static str,
    pub(super) deadline: u64,
    pub(super) streams: Vec<StreamPlan>,
    /// The number of streams, the first ones, that are in flight from the beginning.
    pub(super) begun: usize,
    pub(super) requests: Vec<RequestPlan>,
    /// Lengths of time, and how often each may pass.
    pub(super) naps: Vec<(u64, u8)>,
    /// Steps of the wall clock, forward.
    pub(super) wall_steps: u8,
    pub(super) deaths: u8,
    /// Whether a VM that died comes back.
    pub(super) is_reborn: bool,
    /// Whether the stop of Istio's agent begins a drain of the first gate.
    pub(super) has_agent: bool,
    /// How often the agent's port closes or opens; it is open first.
    pub(super) agent_turns: u8,
    /// Reloads of the configuration, on the second worker.
    pub(super) reloads: u8,
    /// Reloads of the first gate, on the first worker.
    pub(super) gate_reloads: u8,
    /// How often a call may fail, and how.
    pub(super) failures: u8,
    pub(super) faults: Vec<Fault>,
    /// Whether time passes while a call is not answered.
    pub(super) is_slow: bool,
    /// Whether Envoy stops counting a stream some time before the filter's callback for its end.
    /// The worker stands still meanwhile.
    pub(super) closes_first: bool,
    /// Whether the configuration that is loaded has no counting filter.
    pub(super) loads_nothing: bool,
    /// Whether Envoy exports its own counts.
    pub(super) exports: bool,
    /// Whether the counters have just begun to count.
    pub(super) is_young: bool,
    /// Whether the streams are in an earlier filter from the beginning, and never end once they are
    /// accepted.
    pub(super) is_lasting: bool,
    /// Whether workers may run before each host call of another one that touches a metric of
    /// streams.
    pub(super) is_fine: bool,
    /// Whether workers may run before another one stores the record, or the holder of the latch.
    pub(super) is_raced: bool,
    /// Whether the messages of the census come in any order. Otherwise the queue that was opened
    /// first has precedence.
    pub(super) is_unordered: bool,
    /// Whether time passes only when there is no other work.
    pub(super) is_prompt: bool,
    /// Whether the second worker may be stalled: time also passes when only it has work.
    pub(super) stalls: bool,
    pub(super) goals: Vec<Goal>,
}

/// The times of every gate; milliseconds.
pub(super) const QUIET: u64 = 200;
pub(super) const OPEN_FOR: u64 = 1_000;

impl Setup {
    /// A gate over two workers, and nothing else.
    pub(super) fn plain() -> Self {
        Self {
            gates: vec![Scope::Gateway],
            exempts: false,
            begin: "nothing",
            finish: "nothing",
            deadline: 600,
            streams: Vec::new(),
            begun: 0,
            requests: Vec::new(),
            naps: vec![(QUIET, 2)],
            wall_steps: 0,
            deaths: 0,
            is_reborn: false,
            has_agent: false,
            agent_turns: 0,
            reloads: 0,
            gate_reloads: 0,
            failures: 0,
            faults: Vec::new(),
            is_slow: false,
            closes_first: false,
            loads_nothing: false,
            exports: true,
            is_young: false,
            is_lasting: false,
            is_fine: false,
            is_raced: false,
            is_unordered: false,
            is_prompt: true,
            stalls: false,
            goals: Vec::new(),
        }
    }

    pub(super) fn reaches(mut self, goals: &[Goal]) -> Self {
        self.goals = goals.to_vec();
        self
    }

    pub(super) fn stream(mut self, worker: usize, kind: Kind) -> Self {
        self.streams.push(StreamPlan { worker, scope: self.gates[0], kind });
        self
    }

    pub(super) fn stream_of(mut self, worker: usize, scope: Scope) -> Self {
        self.streams.push(StreamPlan { worker, scope, kind: Kind::Plain });
        self
    }

    pub(super) fn request(self, worker: usize, method: &'static str, path: &'static str) -> Self {
        self.request_of(0, worker, method, path)
    }

    pub(super) fn request_of(
        mut self,
        gate: usize,
        worker: usize,
        method: &'static str,
        path: &'static str,
    ) -> Self {
        self.requests.push(RequestPlan { worker, gate, method, path });
        self
    }

    /// Whether a worker may stand still for so long in the end of a stream that its counter is
    /// dead. The gauge is then below zero until a gate repairs it.
    pub(super) fn outlives_death(&self) -> bool {
        let longest: u64 = self.naps.iter().map(|(nap, times)| nap * u64::from(*times)).sum();
        self.closes_first && longest >= DEAD_AFTER.0
    }

    /// The scopes whose streams are counted.
    pub(super) fn scopes(&self) -> Vec<Scope> {
        let mut scopes = self.gates.clone();
        scopes.dedup();
        scopes
    }

    pub(super) fn gate_text(&self, gate: usize) -> String {
        format!(
            r#"{{"role": "gate", "gate": {{
                "scopes": ["{}"], "quiet_ms": {QUIET}, "linger_ms": 0, "deadline_ms": {},
                "open_ms": {OPEN_FOR}, "long_lived": "{}", "begin": {{"call": "{}"}},
                "finish": "{}", "starts": "{}",
                "admin": {{"timeout_ms": 200, "agent_cluster": "own"}}
            }}}}"#,
            self.gates[gate],
            self.deadline,
            if self.exempts { "exempt" } else { "wait" },
            self.begin,
            if gate == 0 { self.finish } else { "nothing" },
            if gate == 0 && self.has_agent { "agent" } else { "hook" },
        )
    }

    pub(super) fn counter_text(scope: Scope) -> String {
        format!(
            r#"{{"scope": "{scope}", "count": {{
                "exclude": {{"headers": [{{"name": "x-excluded"}}]}},
                "long_lived": {{"headers": [{{"name": "x-long"}}]}}
            }}}}"#
        )
    }

    /// Whether streams of that kind hold the drain.
    pub(super) fn holds(&self, kind: Kind) -> bool {
        match kind {
            Kind::Plain | Kind::Uncounted => true,
            Kind::Long => !self.exempts,
            Kind::Excluded => false,
        }
    }
}
