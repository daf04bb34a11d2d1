//! The pod's grace period, where the proxy's environment has it. The downward API does not: a
//! filter in front of the gate writes the variable into filter state.

use laststream_drain::state::Millis;

use crate::host::Host;
use crate::parse::numbers;

/// The filter state key of the grace period, and of the time that is needed after the hook: two
/// numbers of seconds.
pub const GRACE_KEY: &str = "laststream.gate_grace";

/// The longest drain for which the pod leaves time.
pub(super) fn longest_drain(host: &impl Host) -> Option<Millis> {
    parse(&host.property(&format!("filter_state\0{GRACE_KEY}"))?)
}

/// A variable that is missing or no number says nothing.
fn parse(state: &[u8]) -> Option<Millis> {
    let words = core::str::from_utf8(state).ok()?;
    let [grace, after] = numbers(&mut words.split_ascii_whitespace())?;
    Some(Millis(grace.saturating_sub(after)) * 1_000)
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Millis, parse};

    #[wasm_bindgen_test(unsupported = test)]
    fn the_deadline_leaves_time_after_the_hook() {
        for (state, longest) in [
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
            assert_eq!(parse(state.as_bytes()), longest.map(Millis), "{state:?}");
        }
        assert_eq!(parse(b"\xff 7"), None);
    }
}
