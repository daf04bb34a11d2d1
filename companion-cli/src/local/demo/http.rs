//! As much HTTP/1 as the demo speaks itself: one exchange as a client, the heads of requests as a server. Everything else is Envoy's.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpListener;

const LONGEST_HEAD: usize = 64 << 10;
const LONGEST_BODY: u64 = 16 << 20;
const MOST_HEADERS: usize = 64;

/// What a server said, complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Reply {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// What a client asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
}

/// On any free port. Whoever accepts there looks whether to go on in between.
pub(super) fn listen() -> io::Result<(TcpListener, u16)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

/// Reads from a connection with a read time-out, and asks at each whether to go on.
pub(super) struct Patient<'a, R> {
    inner: R,
    give_up: &'a dyn Fn() -> bool,
}

impl<'a, R: Read> Patient<'a, R> {
    pub(super) fn new(inner: R, give_up: &'a dyn Fn() -> bool) -> Self {
        Self { inner, give_up }
    }
}

impl<R: Read> Read for Patient<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.inner.read(buffer) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) && !(self.give_up)() => {}
                result => return result,
            }
        }
    }
}

/// Asks once; the connection stays open for whoever asks again.
pub(super) fn exchange<S: Read + Write>(stream: &mut S, method: &str, path: &str, headers: &[(&str, &str)]) -> io::Result<Reply> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n");
    for (name, value) in headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    stream.flush()?;
    reply(&mut BufReader::new(stream))
}

fn reply(reader: &mut impl BufRead) -> io::Result<Reply> {
    let head = read_head(reader)?;
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    response.parse(&head).map_err(broken)?;
    let status = response.code.ok_or_else(|| broken("no status"))?;
    let value = |name: &str| {
        let header = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(header.value).ok()
    };
    let mut body = Vec::new();
    if value("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
        chunks(reader, &mut body)?;
    } else if let Some(length) = value("content-length") {
        take(reader, length.parse().map_err(broken)?, &mut body)?;
    } else {
        reader.by_ref().take(LONGEST_BODY).read_to_end(&mut body)?;
    }
    Ok(Reply { status, body })
}

fn chunks(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let mut line = String::new();
        reader.by_ref().take(64).read_line(&mut line)?;
        let size = u64::from_str_radix(line.trim().split(';').next().unwrap_or_default(), 16).map_err(broken)?;
        take(reader, size, body)?;
        reader.by_ref().take(2).read_line(&mut line)?;
        if size == 0 {
            return Ok(());
        }
    }
}

/// All of it, or it is no answer.
fn take(reader: &mut impl BufRead, length: u64, body: &mut Vec<u8>) -> io::Result<()> {
    if length > LONGEST_BODY {
        return Err(broken("too long a body"));
    }
    let got = reader.by_ref().take(length).read_to_end(body)?;
    if (got as u64) < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// A request's head.
pub(super) fn request(reader: &mut impl BufRead) -> io::Result<Request> {
    let head = read_head(reader)?;
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    request.parse(&head).map_err(broken)?;
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    Ok(Request {
        method: request.method.unwrap_or_default().to_owned(),
        path: request.path.unwrap_or_default().to_owned(),
        headers: request.headers.iter().map(|header| (header.name.to_ascii_lowercase(), text(header.value))).collect(),
    })
}

/// Everything up to the empty line.
fn read_head(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let room = (LONGEST_HEAD - head.len()) as u64;
        if room == 0 {
            return Err(broken("too long a head"));
        }
        if reader.by_ref().take(room).read_until(b'\n', &mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(head)
}

/// Answers with a body of text.
pub(super) fn answer(stream: &mut impl Write, status: u16, body: &str, close: bool) -> io::Result<()> {
    let reason = if status == 200 { "OK" } else { "Not Found" };
    let connection = if close { "connection: close\r\n" } else { "" };
    let head =
        format!("HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{connection}\r\n", body.len());
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.flush()
}

fn broken(why: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> io::Result<Reply> {
        reply(&mut text.as_bytes())
    }

    #[test]
    fn complete_answers_are_read() {
        let whole = Reply { status: 200, body: b"abcd".to_vec() };
        assert_eq!(read("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd").unwrap(), whole);
        assert_eq!(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x\r\nd\r\n0\r\n\r\n").unwrap(), whole);
        assert_eq!(read("HTTP/1.1 200 OK\r\n\r\nabcd").unwrap(), whole);
    }

    #[test]
    fn what_was_cut_is_no_answer() {
        for cut in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nab",
            "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\nabc",
            "nonsense\r\n\r\n",
        ] {
            assert!(read(cut).is_err(), "{cut:?}");
        }
    }
}
