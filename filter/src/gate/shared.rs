//! The keys of a gate in shared data. Each gate has its own shared value, because two gates on one
//! Envoy wait for different streams, and neither may open the other.

use strum::VariantArray as _;

use crate::config::wire::Scope;
use crate::host::Control;
use crate::parse::digits;

/// The number of healed leaks. Only the gate that increments it heals the leak.
pub(super) const HEALS: &str = "laststream.heals";

/// The key of the gate with these scopes, in the filter that is being configured. The name of the
/// filter stays the same when the configuration or the module changes, so a drain goes on.
pub(super) fn key_of_this_filter(host: &impl Control, scopes: &[Scope]) -> String {
    let mut key = String::from("laststream.gate");
    for scope in Scope::VARIANTS.iter().filter(|scope| scopes.contains(scope)) {
        key.push_str(&format!(".{scope}"));
    }
    for property in ["plugin_name", "plugin_root_id"] {
        let name = host.property(property).unwrap_or_default();
        key.push_str(&format!(" {}", String::from_utf8_lossy(&name)));
    }
    key
}

/// The number of times that a leaked count was healed.
pub(super) fn heals(host: &impl Control) -> u64 {
    host.get_shared_data(HEALS).and_then(|(text, _)| digits(&text)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use laststream_drain::state::{Moment, Shared};
    use wasm_bindgen_test::wasm_bindgen_test;

    use crate::shared_text::{parse, to_text};

    /// A module of a later version, or of an earlier one, is beside this one while it is replaced.
    #[wasm_bindgen_test(unsupported = test)]
    fn a_drain_goes_on_through_an_upgrade_and_a_downgrade() {
        let mut shared = Shared::default();
        shared.record.began = Moment(u64::MAX);
        shared.record.force_reason = "\"why\" not".into();
        let text = to_text(&shared);
        assert_eq!(parse::<Shared>(Some(text.as_bytes())), shared);
        let later = text.replacen('{', r#"{"later": {"x": [1]}, "#, 1);
        assert_eq!(parse::<Shared>(Some(later.as_bytes())), shared);
        let earlier =
            r#"{"record": {"began": 18446744073709551615, "force_reason": "\"why\" not"}}"#;
        assert_eq!(parse::<Shared>(Some(earlier.as_bytes())), shared);
        for other in [None, Some(&b""[..]), Some(b"2 2 1"), Some(b"\xfe")] {
            assert_eq!(parse::<Shared>(other), Shared::default());
        }
    }
}
