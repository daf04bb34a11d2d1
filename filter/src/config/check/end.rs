//! Checks the settings for ending streams.

use laststream_drain::timing::END_SHORTEST;

use super::Checker;
use crate::config::wire::{End, Gate};
use crate::gate::policy::end_policy;

impl Checker {
    pub(super) fn check_end(&mut self, gate: &Gate) {
        let Some(end) = &gate.end else { return };
        let End { retry_after_s, before_deadline_ms, at_age_ms, .. } = end;
        if retry_after_s.from > retry_after_s.to {
            let message = format!(
                "begins at {} and ends at {}: write the shorter one as `from`",
                retry_after_s.from, retry_after_s.to
            );
            self.add_problem("gate.end.retry_after_s", &message);
        }
        match (before_deadline_ms, at_age_ms) {
            (Some(_), Some(_)) => self.add_problem(
                "gate.end.at_age_ms",
                "is there beside `before_deadline_ms`: keep one, they are two beginnings",
            ),
            (_, Some(0)) => self.add_problem(
                "gate.end.at_age_ms",
                "is 0, so every stream would be ended as soon as the drain begins: leave it out \
                 to end streams before the deadline",
            ),
            _ => self.check_window(gate),
        }
    }

    /// Checks that the window is long enough to spread the ends.
    fn check_window(&mut self, gate: &Gate) {
        let policy = end_policy(gate);
        let deadline = gate.deadline_ms.saturating_sub(gate.begin.delay_ms);
        if policy.kinds.is_empty() {
            return;
        }
        let least = (policy.reserve + END_SHORTEST).0;
        let (path, window) = match (policy.at_age, &gate.end) {
            (None, Some(End { before_deadline_ms: Some(before), .. })) => {
                if *before > deadline {
                    let message = format!(
                        "{before} begins before the drain does: take at most {deadline}, or a \
                         later `gate.deadline_ms`"
                    );
                    return self.add_problem("gate.end.before_deadline_ms", &message);
                }
                ("gate.end.before_deadline_ms", *before)
            }
            (None, _) if policy.over.0 < least => ("gate.end.over_ms", policy.over.0),
            _ => ("gate.deadline_ms", deadline),
        };
        if window < least {
            let message = format!(
                "{window} leaves no time to spread the ends: {} of it are for the quiet period \
                 and for WebSockets that close, so take {least} at least",
                policy.reserve.0
            );
            self.add_problem(path, &message);
        }
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use crate::config::parse;

    #[wasm_bindgen_test(unsupported = test)]
    fn feasible_settings_are_accepted() {
        for inside in [
            r#""end": {}"#,
            r#""end": {"websocket": "end", "waiting": "end", "other": "end"}"#,
            r#""end": {"waiting": "end", "before_deadline_ms": 23000, "changing": true}"#,
            r#""end": {"grpc": "end", "at_age_ms": 3600000, "over_ms": 600000}"#,
            r#""deadline_ms": 7500, "end": {"websocket": "end"}"#,
            r#""end": {"retry_after_s": {"from": 3, "to": 3}}"#,
        ] {
            let text = format!(r#"{{"role": "gate", "gate": {{{inside}}}}}"#);
            assert!(parse(text.as_bytes()).is_ok(), "{text}");
        }
    }
}
