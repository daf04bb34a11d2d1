//! The state of the app, from the response to a call. The app is gone only if its port refuses
//! connections; an app that hangs, resets the connection, sends nonsense or answers 503 is there.

use crate::observation::App;
use crate::step::CallEnd;

/// Envoy adds this header to answers that came from upstream, and to none of its own.
pub const FROM_THE_APP: &str = "x-envoy-upstream-service-time";

/// A time-out is Envoy's own 504, and a response that was cut off has no status: in both cases the
/// app has accepted a connection.
pub(crate) fn from_response(end: CallEnd, is_from_app: bool, body: &str) -> App {
    if end == CallEnd::Refused {
        return App::Unreachable;
    }
    if is_from_app || end != CallEnd::Answered(503) {
        return App::There;
    }
    // Older Envoys add the reason. A connection that failed for another reason, such as its TLS
    // handshake, was accepted.
    let is_refused = match text_after(body.as_bytes(), b"reset reason: remote connection failure") {
        Some(why) => why.is_empty() || text_after(why, b"connect error: ").is_some(),
        None => false,
    };
    if is_refused { App::Gone } else { App::There }
}

/// The text after the first `what`. The standard library's search would make the module a sixteenth
/// larger.
fn text_after<'b>(body: &'b [u8], what: &[u8]) -> Option<&'b [u8]> {
    (0..body.len()).find_map(|start| body.get(start..)?.strip_prefix(what))
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{App, CallEnd, from_response};

    #[wasm_bindgen_test(unsupported = test)]
    fn only_a_refused_connection_means_that_the_app_has_gone() {
        const RESET: &str =
            "upstream connect error or disconnect/reset before headers. reset reason: ";
        for (status, is_from_app, body, expected) in [
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
            assert_eq!(
                from_response(CallEnd::from_status(status), is_from_app, &[RESET, body].concat()),
                expected,
                "{body}"
            );
        }
        assert_eq!(
            from_response(CallEnd::from_status(Some(504)), false, "upstream request timeout"),
            App::There
        );
        assert_eq!(from_response(CallEnd::Reset, false, ""), App::There);
        assert_eq!(from_response(CallEnd::from_status(Some(200)), true, ""), App::There);
        assert_eq!(from_response(CallEnd::Refused, false, ""), App::Unreachable);
    }
}
