//! The times of a drain. Missing times are computed from the others; contradictory times are
//! rejected with all numbers.
//!
//! ```text
//! ├─ delay ─┼──── longest request ────┼ late ┼ quiet ┤
//! ├──────────────────── deadline ────────────────────┼─ agent ─┼ kubelet ┤
//! ├───────────────────────────── grace period ─────────────────────────┤
//! ```
//!
//! With a hook, SIGTERM comes at the deadline; without one it starts the drain, and the agent waits
//! for both.

use crate::error::PolicyProblem;
use crate::file::drain::{Begin, Behind, Drain, Finish, Starts};
use laststream_base::time_span::TimeSpan;

/// The least time that kubelet leaves after the hook.
pub const KUBELET: TimeSpan = TimeSpan::seconds(2);
/// How long after the drain has begun a request may still arrive, because clients and load
/// balancers learn of it later.
const LATE: TimeSpan = TimeSpan::seconds(2);
/// A deadline leaves time for requests of this length.
const SHORTEST: TimeSpan = TimeSpan::seconds(1);
/// How much longer the agent waits than the gate, where its stop starts the drain: the gate notices
/// that after 0.6 to 1.5 s.
const NOTICE: TimeSpan = TimeSpan::seconds(3);
/// Envoy's own default of its drain time.
pub const ENVOY_DRAIN: TimeSpan = TimeSpan::seconds(600);

/// The defaults of a drain by a gate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UsualDrain {
    pub(crate) begin: Begin,
    pub(crate) finish: Finish,
    starts: Starts,
    /// The time that Istio's agent takes after SIGTERM when the deadline was reached; `None` where
    /// there is no agent.
    agent: Option<TimeSpan>,
    delay: TimeSpan,
    grace: TimeSpan,
}

impl UsualDrain {
    pub(crate) const ISTIO: Self = Self {
        begin: Begin::DrainListeners,
        finish: Finish::DrainAgent,
        starts: Starts::Hook,
        agent: Some(TimeSpan::seconds(5)),
        delay: TimeSpan::seconds(0),
        grace: TimeSpan::seconds(30),
    };
    pub(crate) const ENVOY: Self = Self { finish: Finish::Nothing, agent: None, ..Self::ISTIO };
    /// Not less than Envoy Gateway's own manager gives: a `minDrainDuration` of 10 s, and a
    /// `drainTimeout` of 60 s.
    pub(crate) const ENVOY_GATEWAY: Self = Self {
        begin: Begin::FailHealthChecks,
        delay: TimeSpan::seconds(10),
        grace: TimeSpan::seconds(62),
        ..Self::ENVOY
    };

    /// The same with this start. The agent itself tells clients to leave at its stop, and Envoy's
    /// end is noticed by nothing but the agent.
    pub(crate) fn started_by(self, starts: Starts) -> Self {
        match starts {
            Starts::Hook => self,
            Starts::Agent => Self {
                begin: Begin::Nothing,
                finish: Finish::Quit,
                starts,
                agent: Some(NOTICE),
                ..self
            },
        }
    }

    /// The same behind this load balancer, which sends new clients for a while.
    pub(crate) fn behind(self, behind: Option<Behind>) -> Self {
        let delay = behind.map_or(self.delay, Behind::delay).max(self.delay);
        Self { delay, grace: self.grace + (delay - self.delay), ..self }
    }

    /// The same where there is no gate.
    pub(crate) fn without_gate(self) -> Self {
        Self { agent: self.agent, ..Self::ISTIO }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizing {
    pub longest_request: TimeSpan,
    /// The pod's grace period, in whole seconds.
    pub grace_period: TimeSpan,
    pub deadline: TimeSpan,
    pub quiet: TimeSpan,
    /// The time at the beginning of the drain before Envoy tells clients to leave.
    pub delay: TimeSpan,
    /// How long Istio's agent drains after the deadline.
    pub agent: TimeSpan,
    /// How long it drains after SIGTERM, in whole seconds.
    pub termination_drain: TimeSpan,
}

impl Sizing {
    /// The time that Envoy's own drain must take. In its last third Envoy (after 1.40) resets
    /// WebSockets, other upgrades and CONNECT tunnels, which must not happen before the gate's
    /// deadline, nor before the agent's. At its end Envoy cuts streams on replaced listeners.
    pub fn drain_time(&self) -> TimeSpan {
        let longest = self.deadline.max(self.termination_drain);
        TimeSpan::seconds((longest.millis() * 3).div_ceil(2_000))
            .max(self.longest_request.rounded_up())
    }
}

/// The deadline and the grace period that follow from these times.
pub fn drain_sizing(
    longest: TimeSpan,
    quiet: TimeSpan,
    delay: TimeSpan,
    agent: TimeSpan,
) -> Sizing {
    let deadline = delay + longest + LATE + quiet;
    let grace_period = (deadline + agent + KUBELET).rounded_up();
    let termination_drain = agent.rounded_up();
    let longest_request = longest;
    Sizing { longest_request, grace_period, deadline, quiet, delay, agent, termination_drain }
}

pub(super) fn fit(drain: &Drain, usual: UsualDrain) -> Result<Sizing, PolicyProblem> {
    let quiet = drain.quiet.unwrap_or(TimeSpan::seconds(1));
    let begins = drain.begin != Some(Begin::Nothing);
    let delay = drain.delay.unwrap_or(if begins { usual.delay } else { TimeSpan::default() });
    let agent = usual.agent.map_or(TimeSpan::default(), |agent| drain.agent.unwrap_or(agent));
    let after = agent + KUBELET;
    let around = delay + LATE + quiet;
    let deadline = match (drain.deadline, drain.grace_period, drain.longest_request) {
        (Some(deadline), _, _) => deadline,
        (None, Some(grace), _) => grace - after,
        (None, None, Some(longest)) => longest + around,
        (None, None, None) => usual.grace - after,
    };
    let grace_period = drain.grace_period.unwrap_or((deadline + after).rounded_up());
    if grace_period != grace_period.rounded_up() {
        return Err(PolicyProblem::new(
            "drain.grace_period",
            format!(
                "{grace_period} is no whole number of seconds: write `{}`",
                grace_period.rounded_up()
            ),
        ));
    }
    let longest_request = drain.longest_request.unwrap_or(deadline - around);
    let termination_drain = match usual.starts {
        Starts::Hook => agent.rounded_up(),
        Starts::Agent => (deadline + agent).rounded_up(),
    };
    let sizing =
        Sizing { longest_request, grace_period, deadline, quiet, delay, agent, termination_drain };
    let least = drain.longest_request.map_or(deadline, |longest| longest + around);
    if deadline + after > grace_period || (drain.deadline.is_none() && least > deadline) {
        let deadline = drain.deadline.unwrap_or(least);
        let deadline = deadline.max(around + SHORTEST);
        return Err(sizing.grace_period_too_short(deadline, drain.longest_request));
    }
    if least > deadline {
        return Err(sizing.deadline_too_short(least));
    }
    if deadline <= around {
        return Err(sizing.no_time_for_requests(drain));
    }
    Ok(sizing)
}

/// Messages about times that contradict each other.
impl Sizing {
    fn around(&self) -> String {
        format!(
            "{} of delay, {LATE} for requests that arrive late, {} of quiet",
            self.delay, self.quiet
        )
    }

    fn after(&self) -> String {
        if self.agent == TimeSpan::default() {
            format!("{KUBELET} for kubelet")
        } else {
            format!("{} for Istio's agent and {KUBELET} for kubelet", self.agent)
        }
    }

    fn grace_period_too_short(
        &self,
        deadline: TimeSpan,
        longest: Option<TimeSpan>,
    ) -> PolicyProblem {
        let needs = (deadline + self.agent + KUBELET).rounded_up();
        let why = longest.map_or(String::new(), |longest| {
            format!(" (a request of {longest}, {})", self.around())
        });
        let message = format!(
            "{} is too short: a deadline of {deadline}{why}, and {} after it, need {needs}: write \
                `{needs}` or more",
            self.grace_period,
            self.after()
        );
        PolicyProblem::new("drain.grace_period", message)
    }

    fn deadline_too_short(&self, needs: TimeSpan) -> PolicyProblem {
        let message = format!(
            "{} cuts a request of {}: with {} it takes {needs}: write `{needs}` or more",
            self.deadline,
            self.longest_request,
            self.around()
        );
        PolicyProblem::new("drain.deadline", message)
    }

    fn no_time_for_requests(&self, drain: &Drain) -> PolicyProblem {
        let deadline = self.delay + LATE + self.quiet + SHORTEST;
        let (path, least) = match drain.deadline {
            Some(_) => ("drain.deadline", deadline),
            None => ("drain.grace_period", (deadline + self.agent + KUBELET).rounded_up()),
        };
        let message = format!(
            "a deadline of {} in a grace period of {} leaves no time for any request: {}, and {} \
                after the deadline: write `{least}` or more",
            self.deadline,
            self.grace_period,
            self.around(),
            self.after()
        );
        PolicyProblem::new(path, message)
    }
}

#[cfg(test)]
mod tests {
    use super::{Behind, Drain, Starts, TimeSpan, UsualDrain as Usual, fit};

    fn seconds(text: &str) -> Option<TimeSpan> {
        (!text.is_empty()).then(|| text.parse().expect(text))
    }

    fn drain(longest: &str, grace: &str, deadline: &str) -> Drain {
        Drain {
            longest_request: seconds(longest),
            grace_period: seconds(grace),
            deadline: seconds(deadline),
            ..Drain::default()
        }
    }

    #[test]
    fn missing_times_are_computed_from_the_others() {
        for (usual, longest, grace, deadline, expected) in [
            (Usual::ISTIO, "", "", "", ["20s", "30s", "23s"]),
            (Usual::ISTIO, "60s", "", "", ["60s", "70s", "63s"]),
            (Usual::ISTIO, "", "70s", "", ["60s", "70s", "63s"]),
            (Usual::ISTIO, "", "", "63s", ["60s", "70s", "63s"]),
            (Usual::ISTIO, "10s", "70s", "", ["10s", "70s", "63s"]),
            (Usual::ISTIO, "10s", "", "30s", ["10s", "37s", "30s"]),
            (Usual::ISTIO, "10s", "60s", "30s", ["10s", "60s", "30s"]),
            (Usual::ISTIO, "500ms", "", "", ["500ms", "11s", "3500ms"]),
            (Usual::ISTIO.started_by(Starts::Agent), "", "", "", ["22s", "30s", "25s"]),
            (Usual::ISTIO.started_by(Starts::Agent), "60s", "", "", ["60s", "68s", "63s"]),
            (Usual::ENVOY, "60s", "", "", ["60s", "65s", "63s"]),
            (Usual::ENVOY_GATEWAY, "", "", "", ["47s", "62s", "60s"]),
            (Usual::ENVOY_GATEWAY, "60s", "", "", ["60s", "75s", "73s"]),
            (Usual::ISTIO.behind(Some(Behind::AwsNlb)), "", "", "", ["20s", "150s", "143s"]),
            (Usual::ISTIO.behind(Some(Behind::AwsAlb)), "60s", "", "", ["60s", "140s", "133s"]),
            (
                Usual::ENVOY_GATEWAY.behind(Some(Behind::AwsNlb)),
                "",
                "",
                "",
                ["47s", "172s", "170s"],
            ),
        ] {
            let sizing = fit(&drain(longest, grace, deadline), usual).expect("fits");
            let times = [sizing.longest_request, sizing.grace_period, sizing.deadline];
            let times = times.map(|time| time.to_string());
            assert_eq!(times, expected, "{usual:?} {longest} {grace} {deadline}");
        }
    }

    #[test]
    fn contradictory_times_are_rejected_with_all_numbers() {
        for (longest, grace, deadline, path, words) in [
            (
                "60s",
                "30s",
                "",
                "drain.grace_period",
                &["30s", "63s", "60s", "5s", "2s", "`70s`"][..],
            ),
            ("", "30s", "30s", "drain.grace_period", &["30s is too short", "`37s`"]),
            ("60s", "", "50s", "drain.deadline", &["50s", "60s", "`63s`"]),
            ("60s", "90s", "50s", "drain.deadline", &["`63s`"]),
            ("", "8s", "", "drain.grace_period", &["8s", "no time", "`11s`"]),
            ("", "5s", "", "drain.grace_period", &["5s is too short", "`11s`"]),
            ("", "", "3s", "drain.deadline", &["3s", "`4s`"]),
            ("", "30500ms", "", "drain.grace_period", &["`31s`"]),
        ] {
            let problem = fit(&drain(longest, grace, deadline), Usual::ISTIO).expect_err(path);
            assert_eq!(problem.path, path, "{problem}");
            for word in words {
                assert!(problem.message.contains(word), "{problem} lacks {word}");
            }
        }
    }
}
