//! The state of the app, from the response to a call. The app is gone only if its port refuses
//! connections; an app that hangs, resets the connection, sends nonsense or answers 503 is there.

use super::callback::Callback;
use crate::requests::Ended;
use crate::state::{App, AppReply, CallEnd, Moment, text_after};

/// The last query to the app.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct AppQuery {
    pub(crate) asked_at: Moment,
    pub(crate) is_running: bool,
}

impl AppQuery {
    pub(crate) fn ask(&mut self, now: Moment) {
        (self.asked_at, self.is_running) = (now, true);
    }

    /// Shares the answer.
    pub(super) fn has_answered(&mut self, ended: &Ended, callback: &mut Callback<'_>) {
        self.is_running = false;
        let state = from_response(ended);
        callback.shared.app = Some(AppReply { asked_at: self.asked_at, state });
    }
}

/// A time-out is Envoy's own 504, and a response that was cut off has no status: in both cases the
/// app has accepted a connection.
pub(super) fn from_response(ended: &Ended) -> App {
    let Ended { end, body } = ended;
    match end {
        CallEnd::NotSent if body.is_empty() => App::Unreachable,
        CallEnd::NotSent | CallEnd::Reset if is_refused(body) => App::Gone,
        _ => App::There,
    }
}

/// Whether the port refuses connections. Older Envoys add the reason. A connection that failed for
/// another reason, such as its TLS handshake, was accepted.
fn is_refused(body: &str) -> bool {
    match text_after(body.as_bytes(), b"reset reason: remote connection failure") {
        Some(why) => why.is_empty() || text_after(why, b"connect error: ").is_some(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{App, CallEnd, Ended, from_response};

    fn state(status: Option<u16>, is_from_upstream: bool, body: &str) -> App {
        let end = CallEnd::from_answer(status, is_from_upstream, body);
        from_response(&Ended { end, body: body.into() })
    }

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
            let seen = state(status, is_from_app, &[RESET, body].concat());
            assert_eq!(seen, expected, "{body}");
        }
        assert_eq!(state(Some(504), false, "upstream request timeout"), App::There);
        assert_eq!(state(None, false, ""), App::There);
        assert_eq!(state(Some(200), true, ""), App::There);
        assert_eq!(from_response(&Ended::not_sent()), App::Unreachable);
    }
}
