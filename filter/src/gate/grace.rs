//! The pod's grace period, where the proxy's environment has it. The downward API does not: a
//! filter in front of the gate writes the variable into filter state.

use super::Gate;
use crate::host::Control;
use crate::parse::numbers;

/// The filter state key of the grace period, and of the time that is needed after the hook: two
/// numbers of seconds.
pub const GRACE_KEY: &str = "laststream.gate_grace";

impl Gate {
    /// Makes the deadline earlier if the grace period ends before. Each worker does this with each
    /// request that can begin a drain, and the record keeps the earliest deadline.
    pub(super) fn follow_grace_period(&mut self, host: &impl Control) {
        let state = host.property(&format!("filter_state\0{GRACE_KEY}")).unwrap_or_default();
        if let Some(deadline) =
            latest_deadline(&state).and_then(|latest| self.worker.limit_deadline(latest))
        {
            self.metrics.show_deadline(host, deadline / 1_000);
        }
    }
}

/// The latest deadline that kubelet leaves time for; milliseconds. A variable that is missing or no
/// number says nothing.
fn latest_deadline(state: &[u8]) -> Option<u64> {
    let words = core::str::from_utf8(state).ok()?;
    let [grace, after] = numbers(&mut words.split_ascii_whitespace())?;
    Some(grace.saturating_sub(after).saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::latest_deadline;

    #[wasm_bindgen_test(unsupported = test)]
    fn the_deadline_leaves_time_after_the_hook() {
        for (state, latest) in [
            ("70 7", Some(63_000)),
            ("70\n 7", Some(63_000)),
            ("5 7", Some(0)),
            ("18446744073709551615 7", Some(u64::MAX)),
            (" 7", None),
            ("- 7", None),
            ("<nil> 7", None),
            ("30s 7", None),
            ("", None),
        ] {
            assert_eq!(latest_deadline(state.as_bytes()), latest, "{state:?}");
        }
        assert_eq!(latest_deadline(b"\xff 7"), None);
    }
}
