//! One request to Envoy's admin interface, or to another program beside the gate: over TCP or a
//! Unix socket, on a connection of its own, with limits on time and size.

use std::fmt;
use std::io::{self, ErrorKind, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use httparse::{EMPTY_HEADER, Status};

use super::message;

/// The size limit of an answer. Statistics that the gate asks for take a thousandth of it.
const LONGEST: usize = 4 << 20;

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

/// An answer with its whole body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
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
    let until = Instant::now() + limit;
    let (mut connection, host) =
        connect(target, limit).map_err(|error| call_error(&error, CallError::NotSent))?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nuser-agent: laststream\r\n\
         content-length: 0\r\nconnection: close\r\n\r\n"
    );
    let mut exchange = || {
        connection.set_write_timeout(Some(limit))?;
        connection.write_all(head.as_bytes())?;
        message::read(&mut connection, until, LONGEST, parse)
    };
    let answer = exchange().map_err(|error| call_error(&error, CallError::Broken))?;
    answer.ok_or(CallError::Broken)
}

/// The connection, and the host's name. The type for TCP serves any stream socket.
fn connect(target: &Target, limit: Duration) -> io::Result<(TcpStream, &str)> {
    match target {
        Target::Unix(path) => {
            let socket = OwnedFd::from(UnixStream::connect(path)?);
            Ok((TcpStream::from(socket), "localhost"))
        }
        Target::Tcp(host) => {
            let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
            for address in host.to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, limit) {
                    Ok(stream) => return Ok((stream, host)),
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }
}

fn call_error(error: &io::Error, other: CallError) -> CallError {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => CallError::TimedOut,
        _ => other,
    }
}

/// The answer, if all of it is there. None if this is not HTTP.
fn parse(bytes: &[u8], is_end: bool) -> Option<Option<Answer>> {
    let mut headers = [EMPTY_HEADER; 64];
    let mut head = httparse::Response::new(&mut headers);
    let Status::Complete(length) = head.parse(bytes).ok()? else { return Some(None) };
    let (status, rest) = (head.code?, bytes.get(length..)?);
    let body = if message::header(head.headers, "transfer-encoding").is_some() {
        chunks(rest)?
    } else if let Some(length) = message::content_length(head.headers) {
        rest.get(..length).map(<[u8]>::to_vec)
    } else {
        is_end.then(|| rest.to_vec())
    };
    Some(body.map(|body| Answer { status, body }))
}

/// The chunks of a body, if all of them are there.
fn chunks(mut rest: &[u8]) -> Option<Option<Vec<u8>>> {
    let mut body = Vec::new();
    loop {
        let Status::Complete((start, size)) = httparse::parse_chunk_size(rest).ok()? else {
            return Some(None);
        };
        if size == 0 {
            return Some(Some(body));
        }
        let end = start.checked_add(usize::try_from(size).ok()?)?;
        let Some(chunk) = rest.get(start..end) else { return Some(None) };
        body.extend_from_slice(chunk);
        let Some(next) = rest.get(end + 2..) else { return Some(None) };
        rest = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_answer_is_one() {
        let answer = |body: &str| Some(Some(Answer { status: 200, body: body.into() }));
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        let sized = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";
        for (text, body) in [(chunked, "abc"), (sized, "abc")] {
            assert_eq!(parse(text.as_bytes(), false), answer(body));
            let halves = text.trim_end_matches("0\r\n\r\n");
            for end in 0..halves.len() - usize::from(halves == text) {
                assert_eq!(parse(&text.as_bytes()[..end], true), Some(None), "{end} of {text}");
            }
        }
        let open = b"HTTP/1.1 200 OK\r\n\r\nabc";
        assert_eq!((parse(open, false), parse(open, true)), (Some(None), answer("abc")));
        assert_eq!(parse(b"SSH-2.0-OpenSSH_9.2\r\n", false), None);
    }

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
