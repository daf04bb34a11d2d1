//! A small app for whoever has none at hand: it answers with the request as it came, as JSON.
//!
//! `/delay/SECONDS` answers after a while, `/status/CODE` with that status. Its only client is Envoy, so it knows HTTP/1.1 and no more.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value, json};

const LONGEST_HEAD: usize = 64 << 10;
const LONGEST_BODY: usize = 64 << 20;
const MOST_HEADERS: usize = 256;
const LONGEST_DELAY: f64 = 3600.0;

/// Starts it on a free port of the loopback interface. It ends with this process.
///
/// # Errors
/// There is no free port.
pub fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let at = listener.local_addr()?;
    thread::Builder::new().name("echo".into()).spawn(move || {
        for connection in listener.incoming().flatten() {
            // Whatever goes wrong there ends that connection, and Envoy says so.
            let _ = thread::Builder::new().spawn(move || serve(&connection));
        }
    })?;
    Ok(at)
}

fn serve(connection: &TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection);
    let mut writer = connection;
    while let Some(request) = read(&mut reader)? {
        let (status, delay) = wish(request.path.split('?').next().unwrap_or_default());
        thread::sleep(delay);
        answer(&mut writer, &request, status)?;
    }
    Ok(())
}

struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: usize,
}

impl Request {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// The next request, if there is one more.
fn read(reader: &mut impl io::BufRead) -> io::Result<Option<Request>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let room = LONGEST_HEAD.saturating_sub(head.len()) as u64;
        if reader.by_ref().take(room).read_until(b'\n', &mut head)? == 0 {
            return if head.is_empty() { Ok(None) } else { Err(wrong("the head broke off, or is too long")) };
        }
    }
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    parsed.parse(&head).map_err(wrong)?;
    let headers =
        parsed.headers.iter().map(|header| (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).into_owned()));
    let mut request = Request {
        method: parsed.method.unwrap_or_default().to_owned(),
        path: parsed.path.unwrap_or_default().to_owned(),
        headers: headers.collect(),
        body: 0,
    };
    request.body = body(&request, reader)?;
    Ok(Some(request))
}

/// Reads the body away and says how long it was.
fn body(request: &Request, reader: &mut impl io::BufRead) -> io::Result<usize> {
    if request.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return chunks(reader);
    }
    let Some(length) = request.header("content-length") else { return Ok(0) };
    skip(reader, length.parse().map_err(wrong)?)
}

fn chunks(reader: &mut impl io::BufRead) -> io::Result<usize> {
    let mut all = 0;
    loop {
        let line = line(reader)?;
        let size = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16).map_err(wrong)?;
        if size == 0 {
            while !self::line(reader)?.is_empty() {} // trailers
            return Ok(all);
        }
        all += skip(reader, size)?;
        self::line(reader)?;
    }
}

fn line(reader: &mut impl io::BufRead) -> io::Result<String> {
    let mut line = String::new();
    match reader.by_ref().take(LONGEST_HEAD as u64).read_line(&mut line)? {
        0 => Err(wrong("the body broke off")),
        _ => Ok(line.trim_end().to_owned()),
    }
}

fn skip(reader: &mut impl io::BufRead, length: usize) -> io::Result<usize> {
    if length > LONGEST_BODY {
        return Err(wrong("the body is too long for an echo"));
    }
    match io::copy(&mut reader.by_ref().take(length as u64), &mut io::sink())? {
        read if read == length as u64 => Ok(length),
        _ => Err(wrong("the body broke off")),
    }
}

/// What the path wants: a status, and how long to wait before.
fn wish(path: &str) -> (u16, Duration) {
    let seconds = path.strip_prefix("/delay/").and_then(|text| text.parse::<f64>().ok());
    let seconds = seconds.filter(|seconds| (0.0..=LONGEST_DELAY).contains(seconds)).unwrap_or(0.0);
    let status = path.strip_prefix("/status/").and_then(|text| text.parse().ok());
    (status.filter(|status| (200..600).contains(status)).unwrap_or(200), Duration::from_secs_f64(seconds))
}

fn answer(writer: &mut impl Write, request: &Request, status: u16) -> io::Result<()> {
    let mut headers = Map::new();
    for (name, value) in &request.headers {
        // What comes several times is shown as a list.
        match headers.get_mut(name) {
            None => _ = headers.insert(name.clone(), value.as_str().into()),
            Some(Value::Array(values)) => values.push(value.as_str().into()),
            Some(first) => *first = json!([first.take(), value]),
        }
    }
    let shown = json!({
        "method": request.method,
        "path": request.path,
        "x_forwarded_proto": request.header("x-forwarded-proto"),
        "headers": headers,
        "body_bytes": request.body,
    });
    let text = format!("{shown:#}\n");
    let has_body = request.method != "HEAD" && !matches!(status, 204 | 304);
    let length = if matches!(status, 204 | 304) { String::new() } else { format!("content-length: {}\r\n", text.len()) };
    let head = format!("HTTP/1.1 {status} Echo\r\ncontent-type: application/json\r\n{length}\r\n");
    writer.write_all(head.as_bytes())?;
    if has_body {
        writer.write_all(text.as_bytes())?;
    }
    writer.flush()
}

fn wrong(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::{answer, read, wish};

    #[test]
    fn requests_are_shown_as_they_came() {
        let text =
            b"POST /a?b HTTP/1.1\r\nX-A: 1\r\nx-a: 2\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        let mut reader = &text[..];
        let first = read(&mut reader).unwrap().unwrap();
        let mut written = Vec::new();
        answer(&mut written, &first, 200).unwrap();
        let written = String::from_utf8(written).unwrap();
        let json: serde_json::Value = serde_json::from_str(written.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!((&json["method"], &json["path"], &json["body_bytes"]), (&"POST".into(), &"/a?b".into(), &3.into()));
        assert_eq!(json["headers"]["x-a"], serde_json::json!(["1", "2"]));
        assert_eq!(read(&mut reader).unwrap().unwrap().method, "GET");
        assert!(read(&mut reader).unwrap().is_none());
    }

    #[test]
    fn what_is_no_request_is_an_error() {
        for text in [
            "GET / HTTP/1.1\r\n",
            "\0\r\n\r\n",
            "GET / HTTP/1.1\r\ncontent-length: 9\r\n\r\nabc",
            "GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",
        ] {
            assert!(read(&mut text.as_bytes()).is_err(), "{text:?}");
        }
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(1 << 20));
        assert!(read(&mut long.as_bytes()).is_err());
    }

    #[test]
    fn only_sensible_wishes_are_followed() {
        assert_eq!(wish("/delay/1.5").1.as_millis(), 1500);
        assert_eq!(wish("/status/503").0, 503);
        for path in ["/delay/-1", "/delay/NaN", "/delay/1e99", "/status/7", "/status/x", "/"] {
            assert_eq!((wish(path).0, wish(path).1.as_millis()), (200, 0), "{path}");
        }
    }
}
