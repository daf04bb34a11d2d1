//! What an answer to a call to the app says: the app is gone only where its port refuses
//! connections. An app that hangs, breaks off, talks nonsense or says 503 is there.

use super::machine::App;

/// Envoy adds this header to answers that came from upstream, and to none of its own.
pub(super) const FROM_THE_APP: &str = "x-envoy-upstream-service-time";

/// Reads an answer. A time-out is Envoy's own 504, an answer that broke off has no status: somebody
/// is there.
pub(super) fn read(status: Option<u16>, from_the_app: bool, body: &str) -> App {
    if from_the_app || status != Some(503) {
        return App::There;
    }
    // Older Envoys say why, too. A connection that failed for another reason, such as its TLS
    // handshake, was accepted.
    let refused = match behind(body.as_bytes(), b"reset reason: remote connection failure") {
        Some(why) => why.is_empty() || behind(why, b"connect error: ").is_some(),
        None => false,
    };
    if refused { App::Gone } else { App::There }
}

/// What comes after that. The standard library's search, with what it brings along, is a sixteenth
/// of the module.
fn behind<'b>(body: &'b [u8], what: &[u8]) -> Option<&'b [u8]> {
    (0..body.len()).find_map(|start| body.get(start..)?.strip_prefix(what))
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{App, read};

    #[wasm_bindgen_test(unsupported = test)]
    fn only_a_refused_connection_is_gone() {
        const RESET: &str =
            "upstream connect error or disconnect/reset before headers. reset reason: ";
        for (status, from_the_app, body, expected) in [
            (Some(503), false, "remote connection failure", App::Gone),
            (
                Some(503),
                false,
                "remote connection failure, transport failure reason: delayed connect error: \
                    Connection refused",
                App::Gone,
            ),
            (Some(503), true, "remote connection failure", App::There),
            (
                Some(503),
                false,
                "remote connection failure, transport failure reason: TLS_error:wrong version \
                    number",
                App::There,
            ),
            (Some(503), false, "connection termination", App::There),
            (Some(503), false, "local connection failure", App::There),
            (Some(503), false, "overflow", App::There),
            (Some(502), false, "protocol error", App::There),
        ] {
            assert_eq!(read(status, from_the_app, &[RESET, body].concat()), expected, "{body}");
        }
        assert_eq!(read(Some(504), false, "upstream request timeout"), App::There);
        assert_eq!(read(None, false, ""), App::There);
        assert_eq!(read(Some(200), true, ""), App::There);
    }
}
