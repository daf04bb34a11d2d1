//! One request to Envoy's admin interface, or to another program beside the gate: over TCP or a
//! Unix socket.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http::Method;
use laststream_gate::GateError;
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
        let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
        match address.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && is_port(port) => {
                Ok(Self::Tcp(address.to_owned()))
            }
            _ => Err("is no address: write HOST:PORT, or `unix:` and the path of a socket"),
        }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallError {
    /// The request was not sent.
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
    let answer = match target {
        Target::Unix(socket) => laststream_gate::request_at_socket(socket, method, path, limit),
        Target::Tcp(address) => {
            laststream_gate::request(method, &format!("http://{address}{path}"), &[], limit)
        }
    };
    answer.map_err(|error| match error {
        GateError::Timeout(_) => CallError::TimedOut,
        error if error.is_absence() => CallError::NotSent,
        _ => CallError::Broken,
    })
}

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
        for text in ["", "localhost", "localhost:0", ":9901", "localhost:x"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
