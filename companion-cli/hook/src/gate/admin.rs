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
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    /// Reads a request, and sends this text in its place.
    fn reply(mut stream: impl Read + Write, text: &[u8]) {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count > 0) {
            head.push(byte[0]);
        }
        stream.write_all(text).ok(); // the client may have seen enough
    }

    /// What the client makes of this text, from a port and from a socket.
    fn seen(text: &[u8]) -> Result<Answer, CallError> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let socket = UnixListener::bind(&path).unwrap();
        let targets = [Target::Tcp(port.local_addr().unwrap().to_string()), Target::Unix(path)];
        thread::scope(|scope| {
            scope.spawn(|| reply(port.accept().unwrap().0, text));
            scope.spawn(|| reply(socket.accept().unwrap().0, text));
            let [by_port, by_socket] = targets.map(|target| request(&target, "GET", "/", LIMIT));
            assert_eq!(by_port, by_socket);
            by_port
        })
    }

    #[test]
    fn only_a_whole_answer_is_one() {
        let answer = |body: &str| Ok(Answer { status: 200, body: body.into() });
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        let sized = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";
        for text in [chunked, sized] {
            assert_eq!(seen(text.as_bytes()), answer("abc"));
            let halves = text.trim_end_matches("0\r\n\r\n");
            for end in 0..halves.len() - usize::from(halves == text) {
                let half = &text.as_bytes()[..end];
                assert_eq!(seen(half), Err(CallError::Broken), "{end} of {text}");
            }
        }
        assert_eq!(seen(b"HTTP/1.1 200 OK\r\n\r\nabc"), answer("abc"));
        assert_eq!(seen(b"SSH-2.0-OpenSSH_9.2\r\n"), Err(CallError::Broken));
    }

    #[test]
    fn where_no_program_listens_the_call_is_refused() {
        for target in [Target::Tcp("127.0.0.1:1".into()), Target::Unix("/no/such.sock".into())] {
            assert_eq!(request(&target, "POST", "/quit", LIMIT), Err(CallError::Refused));
        }
        let nowhere = Target::Unix("/".repeat(200).into());
        assert_eq!(request(&nowhere, "POST", "/quit", LIMIT), Err(CallError::NotSent));
    }

    /// One that sends a byte now and then does not prolong the call.
    #[test]
    fn the_limit_is_that_of_the_whole_call() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let socket = UnixListener::bind(&path).unwrap();
        let trickle = move || {
            let mut stream = socket.accept().unwrap().0;
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n").unwrap();
            while stream.write_all(b"a").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        };
        let server = thread::spawn(trickle);
        let answer = request(&Target::Unix(path), "GET", "/", Duration::from_millis(300));
        assert_eq!(answer, Err(CallError::TimedOut));
        server.join().unwrap();
    }

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
