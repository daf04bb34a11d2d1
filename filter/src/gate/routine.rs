//! Periodic evaluations, so that the metrics of a serving gate show whether its count is exact
//! before a drain depends on it.

use super::gate::Gate;
use super::phase::Phase;
use super::waiting::WaitsFor;
use crate::host::{Control, compare_and_set_shared};
use crate::parse;

/// The beginning of the shared data key; the key of the record follows.
const KEY: &str = "laststream.routine.";
/// The time by which a tick can come early; milliseconds.
const SLACK: u64 = 500;
/// A number that no HTTP context has, because there is no request to answer.
const NO_STREAM: u32 = 0;

impl Gate {
    /// Evaluates with fresh counts.
    pub(super) fn evaluate_in_routine(&mut self, host: &impl Control) {
        self.hold_for_counts(host, NO_STREAM, WaitsFor::Metrics);
        self.evaluate_and_answer(host);
    }

    /// Claims the next evaluation for this worker, if it is due. One worker evaluates for all,
    /// which tick a little apart.
    pub(super) fn claim_routine(&self, host: &impl Control) -> bool {
        let (now, every) = (host.monotonic_time(), self.policy.evaluate_every);
        if every == 0 || self.record.read(host).phase != Phase::Serving {
            return false;
        }
        let mut is_claimed = false;
        let key = format!("{KEY}{}", self.record.key);
        let is_changed = compare_and_set_shared(host, &key, &mut |text| {
            let last = text.and_then(|text| core::str::from_utf8(text).ok());
            let last = last.and_then(|text| parse::numbers(&mut text.split(' ')));
            let is_due = |[last]: [u64; 1]| now.saturating_sub(last).saturating_add(SLACK) >= every;
            is_claimed = last.is_none_or(is_due);
            is_claimed.then(|| now.to_string().into_bytes())
        });
        is_claimed && is_changed
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use crate::fake::Fake;
    use crate::lifecycle::Root;

    fn gate(host: &Fake, configuration: &[u8]) -> Root {
        let mut root = Root::new(1);
        assert!(root.on_configure(host, configuration), "{:?}", host.lines);
        root
    }

    const EVERY_5_S: &[u8] = br#"{"role": "gate", "gate": {"evaluate_every_ms": 5000}}"#;

    #[wasm_bindgen_test(unsupported = test)]
    fn a_gate_with_an_interval_evaluates_while_it_serves() {
        let host = Fake::default();
        host.clock.set(10_000);
        let root = gate(&host, EVERY_5_S);
        assert_eq!((host.period.get(), host.metric_of("gate_count_")), (5_000, 0));
        root.on_tick(&host);
        assert_eq!(host.metric_of("gate_count_"), 1, "one of the words is true");
        assert_eq!(host.calls.borrow().len(), 1, "Envoy is asked");
        host.clock.set(12_000);
        root.on_tick(&host);
        assert_eq!(host.period.get(), 5_000, "answered, or given up");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn one_worker_evaluates_for_all() {
        let host = Fake::default();
        host.clock.set(10_000);
        let roots = [gate(&host, EVERY_5_S), gate(&host, EVERY_5_S)];
        roots.iter().for_each(|root| root.on_tick(&host));
        assert_eq!(host.calls.borrow().len(), 1);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn by_default_a_serving_gate_does_not_tick() {
        let host = Fake::default();
        gate(&host, br#"{"role": "gate"}"#);
        assert_eq!(host.period.get(), 0);
        assert_eq!(host.metric_of("gate_deadline_seconds"), 23);
    }
}
