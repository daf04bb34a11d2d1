//! One request to Envoy's admin interface, or to another program beside the gate: over TCP or a
//! Unix socket.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http::Method;
use http::uri::Authority;
use laststream_gate::{GateError, exchange};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

pub(super) use laststream_gate::Response as Answer;

/// The address of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// Host and port.
    Tcp(String),
    Unix(PathBuf),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Target {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(path) =
            text.strip_prefix("unix:").or_else(|| text.starts_with('/').then_some(text))
        {
            return Ok(Self::Unix(path.into()));
        }
        let address = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
        match address.parse::<Authority>() {
            Ok(authority)
                if !authority.host().is_empty()
                    && authority.port_u16().is_some_and(|port| port > 0)
                    && !address.contains('@') =>
            {
                Ok(Self::Tcp(address.to_owned()))
            }
            _ => Err(
                "is no address: write one such as `127.0.0.1:9901` or `[::1]:9901`, or `unix:` \
                      and the path of a socket",
            ),
        }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallError {
    /// No program listens there.
    Refused,
    /// The request was not sent for another reason.
    NotSent,
    TimedOut,
    /// The connection ended early, or what came is no answer.
    Broken,
}

/// Sends a request, and waits at most this long for the whole answer.
pub(super) fn request(
    target: &Target,
    method: &str,
    path: &str,
    limit: Duration,
) -> Result<Answer, CallError> {
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| CallError::NotSent)?;
    let path = utf8_percent_encode(path, NOT_IN_URLS);
    let answer = match target {
        Target::Unix(socket) => {
            exchange(Some(socket), method, &format!("http://127.0.0.1{path}"), &[], limit)
        }
        Target::Tcp(host) => exchange(None, method, &format!("http://{host}{path}"), &[], limit),
    };
    answer.map_err(|failed| match failed.error {
        GateError::Timeout(_) => CallError::TimedOut,
        _ if failed.was_connected => CallError::Broken,
        GateError::ConnectionRefused => CallError::Refused,
        _ => CallError::NotSent,
    })
}

/// What a path of the configuration may have, and a URL may not.
const NOT_IN_URLS: &AsciiSet = &CONTROLS.add(b'"').add(b'#').add(b'<').add(b'>').add(b'`');

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_port_or_a_socket() {
        let tcp = |text: &str| Ok(Target::Tcp(text.into()));
        assert_eq!("127.0.0.1:9901".parse(), tcp("127.0.0.1:9901"));
        assert_eq!("http://localhost:9901/".parse(), tcp("localhost:9901"));
        for text in ["unix:/run/a.sock", "/run/a.sock"] {
            assert_eq!(text.parse(), Ok(Target::Unix("/run/a.sock".into())));
        }
        assert_eq!("[::1]:9901".parse(), tcp("[::1]:9901"));
        for text in ["", "localhost", "localhost:0", ":9901", "localhost:x", "::1:9901", "a@b:1"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
