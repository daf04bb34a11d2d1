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

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Scheme, scheme};

    #[wasm_bindgen_test(unsupported = test)]
    fn reads_exactly_one_known_scheme() {
        assert_eq!(scheme(br#"{"scheme":"https"}"#), Some(Scheme::Https));
        assert_eq!(scheme(br#" { "x": [1], "scheme" : "HTTP" } "#), Some(Scheme::Http));
        for header in [
            &br#"{"scheme":"https","scheme":"http"}"#[..],
            b"https",
            br#"{"scheme":1}"#,
            br#"{"scheme":"ftp"}"#,
            b"{}",
            b"",
            b"\xff",
            br#"{"scheme":"https"} x"#,
            br#"["https"]"#,
        ] {
            assert_eq!(scheme(header), None, "{}", String::from_utf8_lossy(header));
        }
    }
}
