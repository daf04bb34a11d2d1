//! The gate's port: reads one request from each connection, with limits, and writes the reply when
//! the gate has one.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use httparse::{EMPTY_HEADER, Status};
use laststream_filter::headers::serialise;

use super::input::{Input, Reply, Request, STACK};

/// The most connections at once; more are closed.
const MOST: usize = 128;
/// The size limit of a request's head, and of a body, which is skipped.
const LONGEST: usize = 16 << 10;
/// How long a client may take to send its request, and to read the reply.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a connection whose reply is awaited is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// The number of the first request. Those of the program's own requests are lower.
const FIRST: u32 = 1 << 31;

/// Accepts connections until the process ends.
pub(super) fn listen(listener: TcpListener, inputs: Sender<Input>) -> io::Result<()> {
    let place = Arc::new(());
    let accept = move || {
        for (number, stream) in (FIRST..).zip(listener.incoming()) {
            let Ok(stream) = stream else {
                thread::sleep(LOOK); // too many files are open
                continue;
            };
            if Arc::strong_count(&place) > MOST {
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

/// One connection. An error ends it, and nothing else.
fn serve(mut stream: TcpStream, number: u32, inputs: &Sender<Input>) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = read_head(&mut stream)?;
    let address = stream.local_addr()?.to_string();
    let (reply, replies) = sync_channel(1);
    let Some((request, is_head)) = parse(&head, address, reply) else {
        return write(&mut stream, 400, &[], "the gate does not understand this request\n", false);
    };
    if inputs.send(Input::Request(number, request)).is_err() {
        return Ok(());
    }
    match await_reply(&stream, &replies) {
        Some(Reply::Response { status, headers, body }) => {
            write(&mut stream, status, &headers, &body, is_head)
        }
        Some(Reply::Reset) => Ok(()),
        None => {
            drop(inputs.send(Input::Gone(number)));
            Ok(())
        }
    }
}

/// Reads the head, and as much of the body as fits: bytes that are not read would make the kernel
/// reset the connection, perhaps before the client has its reply.
fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4 << 10]);
    while !is_whole(&bytes) && bytes.len() < 2 * LONGEST {
        let time_left = until.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(time_left.max(Duration::from_millis(1))))?;
        let count = stream.read(&mut chunk)?;
        if count == 0 || time_left.is_zero() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&chunk[..count]);
    }
    Ok(bytes)
}

fn is_whole(bytes: &[u8]) -> bool {
    let mut headers = [EMPTY_HEADER; 64];
    let mut head = httparse::Request::new(&mut headers);
    match head.parse(bytes) {
        Ok(Status::Complete(length)) => {
            let body = head.headers.iter().find(|header| is_named(header, "content-length"));
            let text = body.and_then(|header| std::str::from_utf8(header.value).ok());
            let body = text.and_then(|text| text.trim().parse().ok()).unwrap_or(0_usize);
            bytes.len() >= length + body.min(LONGEST)
        }
        Ok(Status::Partial) => false,
        Err(_) => true,
    }
}

fn is_named(header: &httparse::Header<'_>, name: &str) -> bool {
    header.name.eq_ignore_ascii_case(name)
}

/// The request, and whether its response has no body. Of several `Host` headers none counts.
fn parse(bytes: &[u8], address: String, reply: SyncSender<Reply>) -> Option<(Request, bool)> {
    let mut headers = [EMPTY_HEADER; 64];
    let mut head = httparse::Request::new(&mut headers);
    head.parse(bytes).ok().filter(Status::is_complete)?;
    let (method, path) = (head.method?, head.path?);
    let mut hosts = head.headers.iter().filter(|header| is_named(header, "host"));
    let host = hosts.next().filter(|_| hosts.next().is_none());
    let mut map =
        vec![(":method".to_owned(), method.as_bytes()), (":path".to_owned(), path.as_bytes())];
    map.extend(host.map(|host| (":authority".to_owned(), host.value)));
    let other_headers = head.headers.iter().filter(|header| !is_named(header, "host"));
    map.extend(other_headers.map(|header| (header.name.to_ascii_lowercase(), header.value)));
    let is_for_metrics = path.split('?').next() == Some("/metrics") && method == "GET";
    let request = Request { is_for_metrics, headers: serialise(&map), address, reply };
    Some((request, method == "HEAD"))
}

/// None if the client has gone.
fn await_reply(stream: &TcpStream, replies: &Receiver<Reply>) -> Option<Reply> {
    loop {
        match replies.recv_timeout(LOOK) {
            Ok(reply) => return Some(reply),
            Err(RecvTimeoutError::Disconnected) => return Some(Reply::Reset),
            Err(RecvTimeoutError::Timeout) if is_gone(stream) => return None,
            Err(RecvTimeoutError::Timeout) => {}
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

fn write(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(String, String)],
    body: &str,
    is_head: bool,
) -> io::Result<()> {
    let reason = http::StatusCode::from_u16(status).ok().and_then(|code| code.canonical_reason());
    let mut text = format!("HTTP/1.1 {status} {}\r\n", reason.unwrap_or_default());
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += &format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    if !is_head {
        text += body;
    }
    stream.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use laststream_filter::headers::Headers;

    use super::*;

    fn headers(text: &str) -> Option<Vec<u8>> {
        let (reply, _) = sync_channel(1);
        parse(text.as_bytes(), String::new(), reply).map(|(request, _)| request.headers)
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
        for text in ["GET / HTTP/1.1\r\n", "hello\r\n\r\n"] {
            assert!(headers(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_body_belongs_to_the_request() {
        let head = "POST /drain HTTP/1.1\r\ncontent-length: 2\r\n\r\n";
        assert!(!is_whole(head.as_bytes()) && is_whole(format!("{head}ab").as_bytes()));
    }
}
