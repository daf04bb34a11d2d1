//! One request and its answer: limits on time and size, no redirects, no credentials of its own making.

use std::io::{self, Read as _};
use std::time::Duration;

use ureq::http::{HeaderMap, Method, Request, Response};
use ureq::tls::TlsConfig;
use ureq::{Agent, Body, Timeout};

use super::address::{Url, in_full};
use super::credentials::Secret;
use super::error::HttpError;
use crate::causes::with_sources;

/// How long things may take.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Finding the address and connecting, TLS included.
    pub connect: Duration,
    /// The longest silence: until the answer begins, and between its parts.
    pub silence: Duration,
    /// One request as a whole.
    pub request: Duration,
    /// Before the second try; it doubles before each further one.
    pub pause: Duration,
    /// The longest pause, also if the registry asks for a longer one: then that is the error.
    pub longest_pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            silence: Duration::from_secs(30),
            request: Duration::from_secs(10 * 60),
            pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(60),
        }
    }
}

pub(super) struct Http {
    agent: Agent,
    limits: Limits,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// Who answered, after redirects.
    pub(super) url: Url,
    /// It says 401, and the next request has a new token.
    pub(super) renewed: bool,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// What is asked.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) url: &'a Url,
    pub(super) headers: &'a [(&'static str, String)],
    pub(super) authorization: Option<&'a Secret>,
    pub(super) body: Option<&'a [u8]>,
    /// More bytes of an answer are refused.
    pub(super) limit: u64,
}

impl Http {
    pub(super) fn new(limits: &Limits, tls: TlsConfig, proxy_from_env: bool) -> Self {
        let mut config = Agent::config_builder()
            .timeout_resolve(Some(limits.connect))
            .timeout_connect(Some(limits.connect))
            .timeout_per_read(Some(limits.silence))
            .timeout_per_write(Some(limits.silence))
            .timeout_recv_response(Some(limits.silence))
            .timeout_global(Some(limits.request))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("laststream/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls);
        if !proxy_from_env {
            config = config.proxy(None);
        }
        Self { agent: config.build().into(), limits: limits.clone() }
    }

    pub(super) fn ask(&self, ask: &Ask<'_>) -> Result<Answer, HttpError> {
        let mut request = Request::builder().method(ask.method.clone()).uri(in_full(ask.url));
        for (name, value) in ask.headers {
            request = request.header(*name, value);
        }
        if let Some(authorization) = ask.authorization {
            request = request.header("authorization", authorization.reveal());
        }
        // The texts of these errors do not quote values.
        let built = |error: ureq::http::Error| HttpError::Other(error.to_string());
        let response = match ask.body {
            Some(body) => self.agent.run(request.body(body).map_err(built)?),
            None => self.agent.run(request.body(()).map_err(built)?),
        };
        self.answer(ask, response.map_err(|error| self.told(error, ask.limit))?)
    }

    fn answer(&self, ask: &Ask<'_>, response: Response<Body>) -> Result<Answer, HttpError> {
        let (parts, body) = response.into_parts();
        let mut bytes = Vec::new();
        if ask.method != Method::HEAD {
            let mut reader = body.into_with_config().limit(ask.limit).reader();
            reader.read_to_end(&mut bytes).map_err(|error| self.told(error.into(), ask.limit))?;
        }
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body: bytes, url: ask.url.clone(), renewed: false })
    }

    fn told(&self, error: ureq::Error, limit: u64) -> HttpError {
        use ureq::Error;
        let timeout = |during, limit| HttpError::Timeout { during, limit };
        match error {
            Error::Timeout(Timeout::Resolve) => timeout("finding its address", self.limits.connect),
            Error::Timeout(Timeout::Connect) => timeout("connecting", self.limits.connect),
            Error::Timeout(Timeout::PerWrite) => timeout("sending", self.limits.silence),
            Error::Timeout(Timeout::PerRead | Timeout::RecvResponse) => timeout("waiting for its answer", self.limits.silence),
            Error::Timeout(_) => timeout("the whole request was under way", self.limits.request),
            Error::BodyExceedsLimit(_) => HttpError::TooLarge(limit),
            Error::HostNotFound => HttpError::NoHost,
            Error::Rustls(_) | Error::Tls(_) => HttpError::Tls(with_sources(&error)),
            Error::ConnectionFailed => HttpError::Connection("nobody answers".to_owned()),
            Error::Io(error) => of_io(&error),
            error => HttpError::Other(with_sources(&error)),
        }
    }
}

/// What rustls has against the other side comes as an error of reading.
fn of_io(error: &io::Error) -> HttpError {
    use io::ErrorKind::{
        AddrNotAvailable, BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted, NetworkDown,
        NetworkUnreachable, NotConnected, TimedOut, UnexpectedEof, WouldBlock,
    };
    match error.kind() {
        AddrNotAvailable | BrokenPipe | ConnectionAborted | ConnectionRefused | ConnectionReset | HostUnreachable | Interrupted
        | NetworkDown | NetworkUnreachable | NotConnected | TimedOut | UnexpectedEof | WouldBlock => {
            HttpError::Connection(error.to_string())
        }
        io::ErrorKind::InvalidData => HttpError::Tls(error.to_string()),
        _ => HttpError::Other(error.to_string()),
    }
}
