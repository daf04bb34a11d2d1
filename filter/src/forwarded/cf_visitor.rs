//! Cloudflare's `CF-Visitor: {"scheme":"https"}`.

use super::scheme::Scheme;
use crate::config::tree::{self, Value};

/// The scheme in the header's value; `None` when it is not an object with exactly one `scheme` that
/// is known.
pub fn scheme(header: &[u8]) -> Option<Scheme> {
    let text = core::str::from_utf8(header).ok()?;
    let Ok(Value::Object(members)) = tree::parse(text) else { return None };
    let mut schemes = members.iter().filter(|(name, _)| name == "scheme");
    match (schemes.next(), schemes.next()) {
        (Some((_, Value::Text(scheme))), None) => Scheme::from_word(scheme.as_bytes()),
        _ => None,
    }
}
