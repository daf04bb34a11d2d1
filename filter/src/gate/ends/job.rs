//! The jobs that end streams: that of a drain, of a command, and of a change of Envoy's
//! configuration. Pure.

use strum::VariantArray;

use super::pacing::{Progress, Window};
use super::policy::EndPolicy;
use super::state::EndState;
use crate::census::{EndFilter, EndManner};
use crate::gate::config_drain::Draining;
use crate::gate::machine::Record;
use crate::gate::phase::Phase;

/// What asks for the ends; the counters repeat its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray)]
#[repr(u64)]
pub(crate) enum JobKind {
    /// The drain.
    Drain = 1,
    /// `POST /end`.
    Command = 2,
    /// Nothing: a command that only asks how many there are.
    Query = 3,
    /// A change of Envoy's configuration.
    ConfigChange = 4,
}

/// A job at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) kind: JobKind,
    pub(crate) window: Window,
    pub(crate) which: EndFilter,
    pub(crate) how: EndManner,
    /// The most that may still be ended.
    pub(crate) left: u64,
}

/// What an operator asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct CommandJob {
    pub(crate) which: EndFilter,
    pub(crate) window: Window,
    /// The share of the streams, as a number.
    pub(crate) total: u64,
    pub(crate) progress: Progress,
}

/// For how long a command's last ends may be late; milliseconds.
const LATE: u64 = 1_000;

impl CommandJob {
    /// Streams are still to be ended. What is left at the end of the window is left alone.
    pub(crate) fn is_active(&self, now: u64) -> bool {
        now < self.window.to.saturating_add(LATE) && self.progress.ordered < self.total
    }
}

/// A drain of Envoy's configuration, and Envoy's drain time.
pub(crate) type ConfigDrain = Option<(Draining, u64)>;

/// The end of the streams that are older than a change. Envoy (after 1.40) closes connections with
/// running streams in the last third of its drain time, so all is over before.
fn config_job(policy: &EndPolicy, plain_only: bool, drain: ConfigDrain, now: u64) -> Option<Job> {
    let (Draining::Since { moment, left: 1.. }, drain_time) = drain? else { return None };
    let youngest = now.saturating_sub(policy.at_age.unwrap_or(0));
    let which = EndFilter {
        kinds: policy.kinds,
        changing: policy.changing,
        began_before: moment.min(youngest),
        plain_only,
    };
    let window = Window { from: moment, to: moment.saturating_add(drain_time / 3 * 2) };
    let kind = JobKind::ConfigChange;
    (!policy.kinds.is_empty()).then_some(Job {
        kind,
        window,
        which,
        how: policy.how,
        left: u64::MAX,
    })
}

/// The jobs that go on now, or will in this drain.
pub(crate) fn jobs(
    policy: &EndPolicy,
    exempts_long_lived: bool,
    record: &Record,
    state: &EndState,
    drain: ConfigDrain,
    now: u64,
) -> Vec<Job> {
    let is_stopped = |job: &Job| job.window.from == state.config_stopped;
    let config = config_job(policy, exempts_long_lived, drain, now);
    let mut jobs: Vec<Job> = config.filter(|job| !is_stopped(job)).into_iter().collect();
    if record.phase == Phase::Draining && !policy.kinds.is_empty() {
        let which = EndFilter {
            kinds: policy.kinds,
            changing: policy.changing,
            began_before: now.saturating_sub(policy.at_age.unwrap_or(0)),
            plain_only: exempts_long_lived,
        };
        let window = policy.window(record);
        jobs.push(Job { kind: JobKind::Drain, window, which, how: policy.how, left: u64::MAX });
    }
    if let Some(command) = state.command.filter(|command| command.is_active(now)) {
        let CommandJob { which, window, total, progress } = command;
        let left = total - progress.ordered;
        jobs.push(Job { kind: JobKind::Command, window, which, how: policy.how, left });
    }
    jobs
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Draining, EndPolicy, JobKind, Record, Window, jobs};
    use crate::config::wire::{End, EndKind, Gate};
    use crate::gate::ends::state::EndState;

    fn policy(end: End) -> EndPolicy {
        EndPolicy::new(&Gate { end: Some(end), ..Gate::default() })
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn only_streams_older_than_a_change_are_ended_while_envoy_keeps_them() {
        let ends = || End { websocket: EndKind::End, ..End::default() };
        let since = |left| Some((Draining::Since { moment: 10_000, left }, 45_000));
        let all = |end, drain| {
            jobs(&policy(end), false, &Record::default(), &EndState::default(), drain, 20_000)
        };
        let [job] = all(ends(), since(35_000))[..] else { panic!("one job") };
        assert_eq!((job.kind, job.which.began_before), (JobKind::ConfigChange, 10_000));
        assert_eq!(job.window, Window { from: 10_000, to: 40_000 });
        let [job] = all(End { at_age_ms: Some(15_000), ..ends() }, since(35_000))[..] else {
            panic!("one job")
        };
        assert_eq!(job.which.began_before, 5_000, "the younger of them are left alone");
        for (end, drain) in [
            (End::default(), since(35_000)),
            (ends(), since(0)),
            (ends(), None),
            (ends(), Some((Draining::Nothing, 45_000))),
            (ends(), Some((Draining::SinceUnknown, 45_000))),
            (ends(), Some((Draining::NotExported, 45_000))),
        ] {
            assert!(all(end, drain).is_empty(), "{drain:?}");
        }
        let stopped = EndState { config_stopped: 10_000, ..EndState::default() };
        let policy = policy(ends());
        assert!(jobs(&policy, false, &Record::default(), &stopped, since(1), 20_000).is_empty());
    }
}
