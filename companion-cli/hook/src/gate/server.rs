//! The gate's port: reads one request from each connection, with limits, and writes the reply when
//! the gate has one.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use httparse::{EMPTY_HEADER, Header, Status};
use laststream_filter::headers::serialise;

use super::input::{Input, Request, Response, STACK};

/// The most connections at once; more are closed.
const MOST: usize = 128;
/// The size limit of a request's head, and of a body, which is skipped.
const LONGEST: usize = 16 << 10;
/// How long a client may take to send its request, and to read the reply.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long responses may take to leave when the program ends.
const LAST_RESPONSES: Duration = Duration::from_millis(50);
/// How often a connection whose reply is awaited is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// The number of the first request. Those of the program's own requests are lower.
const FIRST: u32 = 1 << 31;

/// Accepts connections until the process ends. Each holds one of the places.
pub(super) fn listen(
    listener: TcpListener,
    inputs: Sender<Input>,
    places: &Arc<()>,
) -> io::Result<()> {
    let place = Arc::clone(places);
    let accept = move || {
        for (number, stream) in (FIRST..).zip(listener.incoming()) {
            let Ok(stream) = stream else {
                thread::sleep(LOOK); // too many files are open
                continue;
            };
            if open_connections(&place) >= MOST {
                continue;
            }
            let (inputs, place) = (inputs.clone(), Arc::clone(&place));
            let serve = move || {
                drop(serve(stream, number, &inputs));
                drop(place);
            };
            drop(thread::Builder::new().stack_size(STACK).spawn(serve));
        }
    };
    thread::Builder::new().stack_size(STACK).spawn(accept).map(drop)
}

/// Without the caller's place, and that of the thread above.
fn open_connections(places: &Arc<()>) -> usize {
    Arc::strong_count(places).saturating_sub(2)
}

/// Waits until the last responses have left, and not much longer for clients that still wait.
pub(super) fn wait_for_responses(places: &Arc<()>) {
    let until = Instant::now() + LAST_RESPONSES;
    while open_connections(places) > 0 && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
}

/// One connection. An error ends it, and nothing else. Of the body as much is read as fits: bytes
/// that are not read would make the kernel reset the connection, perhaps before the client has its
/// reply.
fn serve(mut stream: TcpStream, number: u32, inputs: &Sender<Input>) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let Some(head) = read(&mut stream)? else {
        let body = "the gate does not understand this request\n".to_owned();
        return write(&mut stream, &Response { status: 400, body, ..Response::default() }, false);
    };
    let address = stream.local_addr()?.to_string();
    let (reply, responses) = sync_channel(1);
    let Head { headers, is_for_metrics, has_no_body } = head;
    let request = Request { is_for_metrics, headers, address, reply };
    if inputs.send(Input::Request(number, request)).is_err() {
        return Ok(());
    }
    match await_response(&stream, &responses) {
        Some(response) => write(&mut stream, &response, has_no_body),
        None => {
            drop(inputs.send(Input::Gone(number)));
            Ok(())
        }
    }
}

/// None: this is no request, is too long, or has ended early.
fn read(stream: &mut TcpStream) -> io::Result<Option<Head>> {
    let until = Instant::now() + PATIENCE;
    let (mut bytes, mut chunk) = (Vec::new(), [0; LONGEST]);
    loop {
        let time_left = until.saturating_duration_since(Instant::now());
        if time_left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(time_left))?;
        let count = stream.read(&mut chunk)?;
        bytes.extend_from_slice(&chunk[..count]);
        match parse(&bytes) {
            Some(None) if count > 0 && bytes.len() <= 2 * LONGEST => {}
            head => return Ok(head.flatten()),
        }
    }
}

/// What is read of a request.
#[derive(Debug)]
struct Head {
    /// As the gate reads them.
    headers: Vec<u8>,
    is_for_metrics: bool,
    /// Whether the response has no body.
    has_no_body: bool,
}

/// The request, if all of it is there. Of several `Host` headers none counts. None if this is not
/// HTTP.
fn parse(bytes: &[u8]) -> Option<Option<Head>> {
    let mut headers = [EMPTY_HEADER; 64];
    let mut head = httparse::Request::new(&mut headers);
    let Status::Complete(length) = head.parse(bytes).ok()? else { return Some(None) };
    let body = content_length(head.headers).unwrap_or(0);
    if bytes.len() < length + body.min(LONGEST) {
        return Some(None);
    }
    let (method, path) = (head.method?, head.path?);
    let is_host = |header: &&Header<'_>| header.name.eq_ignore_ascii_case("host");
    let mut hosts = head.headers.iter().filter(is_host);
    let host = hosts.next().filter(|_| hosts.next().is_none());
    let mut map =
        vec![(":method".to_owned(), method.as_bytes()), (":path".to_owned(), path.as_bytes())];
    map.extend(host.map(|host| (":authority".to_owned(), host.value)));
    let other_headers = head.headers.iter().filter(|header| !is_host(header));
    map.extend(other_headers.map(|header| (header.name.to_ascii_lowercase(), header.value)));
    let is_for_metrics = path.split('?').next() == Some("/metrics") && method == "GET";
    let has_no_body = method == "HEAD";
    Some(Some(Head { headers: serialise(&map), is_for_metrics, has_no_body }))
}

/// The length of the body, if the first header of that name says it.
fn content_length(headers: &[Header<'_>]) -> Option<usize> {
    let header =
        headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"))?;
    std::str::from_utf8(header.value).ok()?.trim().parse().ok()
}

/// None if the client has gone, or gets no response.
fn await_response(stream: &TcpStream, responses: &Receiver<Response>) -> Option<Response> {
    loop {
        match responses.recv_timeout(LOOK) {
            Ok(response) => return Some(response),
            Err(RecvTimeoutError::Timeout) if !is_gone(stream) => {}
            Err(_) => return None,
        }
    }
}

fn is_gone(stream: &TcpStream) -> bool {
    let look = || {
        stream.set_nonblocking(true)?;
        let end = stream.peek(&mut [0]);
        stream.set_nonblocking(false)?;
        end
    };
    match look() {
        Ok(count) => count == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

fn write(stream: &mut TcpStream, response: &Response, has_no_body: bool) -> io::Result<()> {
    let Response { status, headers, body } = response;
    let reason = http::StatusCode::from_u16(*status).ok().and_then(|code| code.canonical_reason());
    let mut text = format!("HTTP/1.1 {status} {}\r\n", reason.unwrap_or_default());
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += &format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    if !has_no_body {
        text += body;
    }
    stream.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use laststream_filter::headers::Headers;

    use super::*;

    fn headers(text: &str) -> Option<Vec<u8>> {
        parse(text.as_bytes()).flatten().map(|head| head.headers)
    }

    #[test]
    fn the_gate_reads_a_request_as_from_envoy() {
        let map =
            headers("POST /drain HTTP/1.1\r\nHost: localhost\r\nX-LastStream-Secret: a\r\n\r\n");
        let map = map.expect("a request");
        let first = |name| Headers::new(&map).first(name).map(<[u8]>::to_vec);
        for (name, value) in [
            (":method", "POST"),
            (":path", "/drain"),
            (":authority", "localhost"),
            ("x-laststream-secret", "a"),
        ] {
            assert_eq!(first(name), Some(value.into()), "{name}");
        }
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_no_request() {
        let map =
            headers("GET / HTTP/1.1\r\nHost: a\r\nhost: localhost\r\n\r\n").expect("a request");
        assert_eq!(Headers::new(&map).first(":authority"), None);
        assert!(parse(b"hello\r\n\r\n").is_none());
        assert!(matches!(parse(b"GET / HTTP/1.1\r\n"), Some(None)), "half a request");
    }

    #[test]
    fn a_body_belongs_to_the_request() {
        let head = "POST /drain HTTP/1.1\r\ncontent-length: 2\r\n\r\n";
        assert!(headers(head).is_none() && headers(&format!("{head}ab")).is_some());
    }
}
