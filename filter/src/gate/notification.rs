//! The call that tells the app that a drain has begun: when it is due, and its progress.
//!
//! Its progress is shared in a key of its own. Its text, like that of the [`Record`], must stay
//! readable for every version of the module, because a drain goes on while the module is replaced.

use super::calls::{Call, Target};
use super::gate::Gate;
use super::machine::Record;
use super::phase::Phase;
use super::policy::Policy;
use super::step::{CallOutcome, Step};
use crate::host::{Control, Level, compare_and_set_shared};
use crate::parse;
use crate::shared_text::{after_version, numbers_to_text};

const VERSION: &str = "1";

/// The progress of the call in the drain that began at `began`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Notification {
    began: u64,
    step: Step,
}

impl Notification {
    /// The progress in this drain. That of an earlier drain is ignored.
    fn of_drain(text: Option<&[u8]>, began: u64) -> Self {
        text.and_then(Self::parse)
            .filter(|notification| notification.began == began)
            .unwrap_or(Self { began, step: Step::Due })
    }

    fn to_text(self) -> String {
        let [kind, since, tries] = self.step.to_numbers();
        numbers_to_text(VERSION, &[self.began, kind, since, tries])
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let text = after_version(core::str::from_utf8(text).ok()?, VERSION)?;
        let [began, step @ ..]: [_; 4] = parse::numbers(&mut text.split(' '))?;
        Some(Self { began, step: Step::from_numbers(step)? })
    }
}

/// Whether the call is due. The drain does not wait for it.
fn is_due(policy: &Policy, record: &Record, now: u64) -> bool {
    record.phase == Phase::Draining && now >= record.began.saturating_add(policy.delay)
}

impl Gate {
    fn notification_key(&self) -> String {
        format!("{} notify", self.record.key)
    }

    fn update_notification(
        &self,
        host: &impl Control,
        began: u64,
        work: &mut dyn FnMut(&mut Notification),
    ) {
        compare_and_set_shared(host, &self.notification_key(), &mut |text| {
            // A call of an earlier drain changes nothing.
            if text.and_then(Notification::parse).is_some_and(|shared| shared.began > began) {
                return None;
            }
            let before = Notification::of_drain(text, began);
            let mut after = before;
            work(&mut after);
            (after != before).then(|| after.to_text().into_bytes())
        });
    }

    /// The progress of the call, if one is configured and the gate is not serving.
    pub(super) fn notify_step(&self, host: &impl Control, record: &Record) -> Option<Step> {
        self.policy.notify.as_ref().filter(|_| record.phase != Phase::Serving)?;
        let shared = host.get_shared_data(&self.notification_key());
        Some(Notification::of_drain(shared.as_ref().map(|(text, _)| &text[..]), record.began).step)
    }

    /// Makes the call, if it is due and no other worker makes it.
    pub(super) fn notify_app_once(&mut self, host: &impl Control, record: &Record, now: u64) {
        let Some(notify) = &self.policy.notify else { return };
        if !is_due(&self.policy, record, now) {
            return;
        }
        let mut is_claimed = false;
        self.update_notification(host, record.began, &mut |notification| {
            is_claimed = notification.step.claim(notify.timeout_ms, now);
        });
        if !is_claimed {
            return;
        }
        let (cluster, path, patience) = (&notify.cluster, &notify.path, notify.timeout_ms);
        let target = Target { cluster, method: "POST", path, patience };
        if !self.calls.send(host, Call::Notify { began: record.began }, target) {
            self.on_notify_response(host, record.began, None);
        }
    }

    /// Handles the app's answer, or its failure.
    pub(super) fn on_notify_response(&self, host: &impl Control, began: u64, status: Option<u16>) {
        let is_told = status.is_some_and(|status| (200..300).contains(&status));
        let outcome = if is_told { CallOutcome::Success } else { CallOutcome::Failure };
        let now = host.monotonic_time();
        self.update_notification(host, began, &mut |notification| {
            notification.step.record_and_pause(outcome, now);
        });
        match outcome {
            CallOutcome::Success => {
                host.log(Level::Info, "the app was told that the drain has begun")
            }
            CallOutcome::Failure => {
                host.log(Level::Warning, "the call that tells the app of the drain failed")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Call, Notification, Phase, Policy, Record, Step};
    use crate::config::wire;
    use crate::fake::Fake;
    use crate::gate::Gate;

    fn gate(host: &Fake) -> Gate {
        let mut policy = Policy::new(wire::Gate::default());
        policy.notify =
            Some(wire::Notify { cluster: "app".into(), path: "/".into(), timeout_ms: 100 });
        policy.delay = 500;
        Gate::new(host, 1, policy).expect("metrics")
    }

    fn draining(began: u64) -> Record {
        Record { phase: Phase::Draining, began, ..Record::default() }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn progress_is_the_same_after_a_round_trip_through_its_text() {
        for step in [
            Step::Due,
            Step::UnderWay { since: 2, tries: 3 },
            Step::Paused { until: 4, tries: 1 },
            Step::Done,
            Step::Failed,
        ] {
            let notification = Notification { began: 7, step };
            assert_eq!(Notification::parse(notification.to_text().as_bytes()), Some(notification));
        }
        let paused = Step::Paused { until: 4, tries: 1 };
        let text = Notification { began: 7, step: paused }.to_text();
        assert_eq!(text, "1 7 4 4 1", "that of earlier versions");
        for text in ["", "1", "1 7 9 0 0", "2 7 0 0 0", "1 7 1 2", "\u{fe}"] {
            assert_eq!(Notification::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn one_worker_makes_the_call_while_the_drain_goes_on() {
        let host = Fake::default();
        let mut workers = [gate(&host), gate(&host)];
        let mut calls = |record: &Record, now| {
            workers.each_mut().map(|gate| {
                gate.notify_app_once(&host, record, now);
                gate.calls.any(|call| matches!(call, Call::Notify { .. }))
            })
        };
        let record = draining(10_000);
        assert_eq!(calls(&record, 10_499), [false, false], "not before clients are told to leave");
        for phase in [Phase::Serving, Phase::Drained, Phase::Expired, Phase::Forced] {
            assert_eq!(calls(&Record { phase, ..draining(10_000) }, 10_500), [false, false]);
        }
        assert_eq!(calls(&record, 10_500), [true, false]);
        assert_eq!(calls(&record, 10_699), [true, false]);
        calls(&record, 10_700);
        let again = Some(Step::UnderWay { since: 10_700, tries: 2 });
        assert_eq!(workers[1].notify_step(&host, &record), again, "it has not come back");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn an_answer_for_a_cancelled_drain_does_not_change_the_next_one() {
        let host = Fake::default();
        let mut gate = gate(&host);
        let (first, second) = (draining(10_000), draining(20_000));
        assert_eq!(gate.notify_step(&host, &Record::default()), None);
        gate.notify_app_once(&host, &first, 10_500);
        assert_eq!(
            gate.notify_step(&host, &first),
            Some(Step::UnderWay { since: 10_500, tries: 1 })
        );
        assert_eq!(gate.notify_step(&host, &second), Some(Step::Due));
        gate.notify_app_once(&host, &second, 20_500);
        gate.on_notify_response(&host, 10_000, Some(200));
        assert_eq!(
            gate.notify_step(&host, &second),
            Some(Step::UnderWay { since: 20_500, tries: 1 })
        );
        gate.on_notify_response(&host, 20_000, Some(204));
        assert_eq!(gate.notify_step(&host, &second), Some(Step::Done));
    }
}
