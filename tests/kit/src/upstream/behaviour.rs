//! The paths of the upstream, and its behaviour for each.

use std::time::Duration;

/// The behaviour of the upstream for a request, by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// `/echo…` and every other path: the path back.
    Echo,
    /// `/delay/<ms>`: 200 after that time.
    Delay(Duration),
    /// `/hold/<key>`: 200 when the test releases the key.
    Hold(String),
    /// `/status/<code>`
    Status(u16),
    /// `/bytes/<count>`, with content-length.
    Bytes(usize),
    /// `/chunked/<count>`: this number of bytes in ten chunks.
    Chunked(usize),
    /// `/stream/<ms>/<key>`: an event every so often, until the client leaves or the test releases
    /// the key.
    Stream(Duration, String),
    /// `/echo-body`: the body back; over HTTP/2 piece by piece.
    EchoBody,
    /// `/grpc`: the body back piece by piece, then trailers with `grpc-status: 0`. HTTP/2 only.
    Grpc,
    /// `/close`: FIN without an answer; over HTTP/2 the connection is lost.
    Close,
    /// `/reset`: RST without an answer; over HTTP/2 RST_STREAM.
    Reset,
    /// `/midbody-reset`: head and half of the body, then RST; over HTTP/2 RST_STREAM.
    MidBodyReset,
    /// `/garbage`: bytes that are not HTTP.
    Garbage,
    /// `/redirect/<path>`: 302 to `http://<host>/<path>`.
    Redirect(String),
    /// `/flaky/<key>`: 503 and 200 in turn.
    Flaky(String),
}

impl Behaviour {
    pub fn of(path: &str) -> Self {
        let path = path.split('?').next().unwrap_or_default();
        let (kind, rest) = path
            .trim_start_matches('/')
            .split_once('/')
            .unwrap_or((path.trim_start_matches('/'), ""));
        let (first, second) = rest.split_once('/').unwrap_or((rest, ""));
        let millis = || Duration::from_millis(first.parse().unwrap_or(10));
        match kind {
            "delay" => Self::Delay(millis()),
            "hold" => Self::Hold(rest.to_owned()),
            "status" => Self::Status(first.parse().unwrap_or(200)),
            "bytes" => Self::Bytes(first.parse().unwrap_or(0)),
            "chunked" => Self::Chunked(first.parse().unwrap_or(0)),
            "stream" => Self::Stream(millis(), second.to_owned()),
            "echo-body" => Self::EchoBody,
            "grpc" => Self::Grpc,
            "close" => Self::Close,
            "reset" => Self::Reset,
            "midbody-reset" => Self::MidBodyReset,
            "garbage" => Self::Garbage,
            "redirect" => Self::Redirect(format!("/{rest}")),
            "flaky" => Self::Flaky(rest.to_owned()),
            _ => Self::Echo,
        }
    }
}
