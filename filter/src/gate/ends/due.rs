//! The jobs that are due: those of a drain, of a command, and of each change of Envoy's
//! configuration. Pure.

use super::job::{CommandJob, Job, JobKind};
use super::pacing::Window;
use super::policy::EndPolicy;
use super::state::EndState;
use crate::census::EndFilter;
use crate::gate::config_drain::ConfigDrain;
use crate::gate::machine::Record;
use crate::gate::phase::Phase;

/// The windows for the ends of streams that are older than a change, one for each change whose
/// streams Envoy still keeps. Envoy (after 1.40) closes connections with running streams in the
/// last third of its drain time, so a window ends before that.
pub(crate) fn change_windows(known: &ConfigDrain, drain_time: u64, now: u64) -> Vec<Window> {
    let window = |from: &u64| Window { from: *from, to: from.saturating_add(drain_time / 3 * 2) };
    known.unclosed(now, drain_time).iter().map(window).collect()
}

/// The jobs that go on now, or will in this drain. Jobs of one kind are next to each other, and the
/// jobs of changes are in the order of the changes, the oldest first.
pub(crate) fn jobs(
    policy: &EndPolicy,
    exempts_long_lived: bool,
    record: &Record,
    state: &EndState,
    changes: &[Window],
    now: u64,
) -> Vec<Job> {
    let youngest = now.saturating_sub(policy.at_age.unwrap_or(0));
    let job = |kind, window, began_before| {
        let EndPolicy { kinds, changing, how, .. } = *policy;
        let which = EndFilter { kinds, changing, began_before, plain_only: exempts_long_lived };
        Job { kind, window, which, how, left: u64::MAX }
    };
    let mut jobs = Vec::new();
    if !policy.kinds.is_empty() {
        for window in changes.iter().filter(|window| window.from > state.config_stopped) {
            jobs.push(job(JobKind::ConfigChange, *window, window.from.min(youngest)));
        }
        if record.phase == Phase::Draining && record.began > state.drain_stopped {
            jobs.push(job(JobKind::Drain, policy.window(record), youngest));
        }
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

    use super::{
        ConfigDrain, EndPolicy, Job, JobKind, Phase, Record, Window, change_windows, jobs,
    };
    use crate::config::wire::{End, EndKind, Gate};
    use crate::gate::ends::state::EndState;

    const DRAIN: u64 = 45_000;

    fn ends() -> End {
        End { websocket: EndKind::End, ..End::default() }
    }

    /// The jobs at 20 s, after changes at these moments.
    fn all(end: End, changes: &[u64], state: &EndState) -> Vec<Job> {
        let mut known = ConfigDrain::default();
        for (draining, moment) in (0..).zip(changes.iter().copied().chain([19_000])) {
            known.observe(moment, Some(draining), DRAIN);
        }
        let windows = change_windows(&known, DRAIN, 20_000);
        let policy = EndPolicy::new(&Gate { end: Some(end), ..Gate::default() });
        jobs(&policy, false, &Record::default(), state, &windows, 20_000)
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn only_streams_older_than_a_change_are_ended_while_envoy_keeps_them() {
        let none = EndState::default();
        let [job] = all(ends(), &[10_000], &none)[..] else { panic!("one job") };
        assert_eq!((job.kind, job.which.began_before), (JobKind::ConfigChange, 10_000));
        assert_eq!(job.window, Window { from: 10_000, to: 40_000 });
        let [job] = all(End { at_age_ms: Some(15_000), ..ends() }, &[10_000], &none)[..] else {
            panic!("one job")
        };
        assert_eq!(job.which.began_before, 5_000, "the younger of them are left alone");
        assert!(all(ends(), &[], &none).is_empty(), "no change");
        assert!(all(End::default(), &[10_000], &none).is_empty(), "no kind is ended");
        let mut known = ConfigDrain::default();
        known.observe(10_000, Some(0), DRAIN);
        known.observe(11_000, Some(1), DRAIN);
        assert_eq!(change_windows(&known, DRAIN, 54_999).len(), 1);
        assert!(change_windows(&known, DRAIN, 55_000).is_empty(), "Envoy has closed them");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn each_change_has_a_job_of_its_own_until_it_is_stopped() {
        let windows = |stopped| {
            let state = EndState { config_stopped: stopped, ..EndState::default() };
            let jobs = all(ends(), &[2_000, 16_000], &state);
            jobs.into_iter().map(|job| (job.number(), job.window)).collect::<Vec<_>>()
        };
        let first = (2_004, Window { from: 2_000, to: 32_000 });
        let second = (16_004, Window { from: 16_000, to: 46_000 });
        assert_eq!(windows(0), [first, second]);
        assert_eq!(windows(2_000), [second], "a change that came after the stop");
        assert_eq!(windows(16_000), [], "all that were known");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_drain_that_is_cancelled_ends_no_more_streams() {
        let policy = EndPolicy::new(&Gate { end: Some(ends()), ..Gate::default() });
        let record = Record { phase: Phase::Draining, began: 9_000, ..Record::default() };
        let count = |drain_stopped| {
            let state = EndState { drain_stopped, ..EndState::default() };
            jobs(&policy, false, &record, &state, &[], 10_000).len()
        };
        assert_eq!([8_000, 9_000].map(count), [1, 0]);
    }
}
