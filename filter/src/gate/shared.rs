//! The keys of a gate in shared data. Each gate has its own shared value, because two gates on one
//! Envoy wait for different streams, and neither may open the other.

use strum::VariantArray as _;

use crate::config::wire::Scope;
use crate::host::Control;
use crate::shared_text::parse_or_default;

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
    parse_or_default(host.get_shared_data(HEALS).map(|(text, _)| text).as_deref())
}
