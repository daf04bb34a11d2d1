//! What clients expect of a gate. It is written without the protocol's own methods, which may be
//! wrong. The properties of this crate, the model of the module and the adversary on a real Envoy
//! judge by it.

use core::ops::Range;

use strum::VariantArray as _;

use crate::requests::{QUIT, Signal};
use crate::state::{Millis, Phase};

/// The phase with this name, as a status shows it.
pub fn phase(name: &str) -> Option<Phase> {
    Phase::VARIANTS.iter().copied().find(|phase| phase.to_string() == name)
}

/// Whether the gate is open whatever is in flight.
pub fn is_open_anyway(phase: Phase) -> bool {
    matches!(phase, Phase::Expired | Phase::Forced)
}

/// The signal that this call to the admin interface sends; none if it cuts no stream.
pub fn signal(path: &str) -> Option<Signal> {
    if path.starts_with(QUIT) {
        Some(Signal::Quit(path.into()))
    } else if path.starts_with("/drain_listeners") && !path.contains("graceful") {
        Some(Signal::DrainListeners(path.into()))
    } else {
        None
    }
}

/// Those of so many gates whose streams this signal of one gate would cut: the end of the process
/// cuts all.
pub fn gates_of(signal: &Signal, gate: usize, gates: usize) -> Range<usize> {
    match signal {
        Signal::Quit(_) => 0..gates,
        Signal::DrainListeners(_) => gate..gate + 1,
    }
}

/// Why an answer of 200 is wrong for a client that asks whether the gate is open; none if it is
/// right. `waiting`: the clients whose streams hold the drain. `lasted`: the time since the gate
/// last served.
pub fn wrong_opening(
    phase: Phase,
    waiting: u64,
    lasted: Millis,
    deadline: Millis,
) -> Option<&'static str> {
    match phase {
        Phase::Drained if waiting > 0 => Some("clients wait"),
        Phase::Expired if lasted < deadline => Some("the deadline is not over"),
        Phase::Serving | Phase::Draining => Some("the gate is not open"),
        Phase::Drained | Phase::Expired | Phase::Forced => None,
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Millis, Phase, gates_of, phase, signal, wrong_opening};

    #[wasm_bindgen_test(unsupported = test)]
    fn a_200_is_wrong_before_the_end_of_a_drain() {
        for (name, waiting, lasted, is_wrong) in [
            ("drained", 0, 1, false),
            ("drained", 1, 99, true),
            ("expired", 1, 9, true),
            ("expired", 1, 10, false),
            ("forced", 1, 0, false),
            ("draining", 0, 99, true),
            ("serving", 0, 99, true),
        ] {
            let phase = phase(name).expect(name);
            let wrong = wrong_opening(phase, waiting, Millis(lasted), Millis(10));
            assert_eq!(wrong.is_some(), is_wrong, "{name} {waiting} {lasted}");
        }
        assert_eq!((phase("open"), phase("")), (None, None::<Phase>));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_quit_cuts_the_streams_of_all_gates() {
        let gates = |path| signal(path).map(|signal| gates_of(&signal, 1, 3));
        assert_eq!(gates("/quitquitquit"), Some(0..3));
        assert_eq!(gates("/drain_listeners?inboundonly"), Some(1..2));
        assert_eq!((gates("/drain_listeners?graceful"), gates("/stats")), (None, None));
    }
}
