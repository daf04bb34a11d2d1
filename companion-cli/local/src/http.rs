//! One request to a local server: with limits on time and size, on a fresh connection, without
//! redirects and proxies.

use std::sync::Arc;
use std::time::Duration;

use http::Method;

use laststream_gate::{GateError, Response};
use laststream_http::url::Url;
use laststream_http::{Client, HttpError, Limits, Request, Route, Settings, Trust};

/// The size limit of a body. A hundred streams with long paths take less than half of it.
const LONGEST: u64 = 4 << 20;
/// The time limit for a connection, on the loopback interface or in the same pod.
const CONNECT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub(crate) struct Http(Arc<Client>);

impl Default for Http {
    fn default() -> Self {
        Self::new(Route::Direct, false) // no proxy between a program and its own pod
    }
}

impl Http {
    /// A client with this route. Connections are kept only if the caller needs that, because a kept
    /// connection may belong to an Envoy that has gone.
    pub(crate) fn new(route: Route, keeps_connections: bool) -> Self {
        let settings =
            Settings { trust: Trust::default(), route, keeps_connections, limits: within(CONNECT) };
        Self(Arc::new(Client::new(settings)))
    }

    /// Sends a request, and waits at most this long for the whole answer.
    pub(crate) fn request(
        &self,
        method: Method,
        url: &str,
        headers: &[(&'static str, String)],
        limit: Duration,
    ) -> Result<Response, GateError> {
        let url =
            Url::parse(url).ok_or_else(|| GateError::Other("this is not a URL".to_owned()))?;
        let request = Request { method, headers, ..Request::get(&url) };
        let to_error = |error| gate_error(error, limit);
        let response = self.0.send_within(&request, within(limit)).map_err(to_error)?;
        let status = response.status;
        let body = response.bytes(LONGEST).map_err(to_error)?;
        Ok(Response { status, body: String::from_utf8_lossy(&body).into_owned() })
    }
}

fn within(limit: Duration) -> Limits {
    Limits { connect: CONNECT, silence: limit, request: limit }
}

fn gate_error(error: HttpError, limit: Duration) -> GateError {
    match error {
        HttpError::Refused(_) => GateError::ConnectionRefused,
        HttpError::NoHost => GateError::NoHost,
        HttpError::Unreachable(text) => GateError::Unreachable(text),
        HttpError::Interrupted(text) => GateError::ConnectionClosed(text),
        HttpError::Timeout { .. } | HttpError::TooSlow(_) => GateError::Timeout(limit),
        error => GateError::Other(error.to_string()),
    }
}
