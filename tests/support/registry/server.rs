//! A small HTTP/1.1 server whose connections can be cut at any place; with or without TLS.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::support::failure::{Context as _, Outcome};

/// The head of a request.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// With the query.
    pub(crate) target: String,
    headers: Vec<(String, String)>,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// A parameter of the query, as it stands there.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let query = self.target.split_once('?')?.1;
        query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    fn length(&self) -> usize {
        self.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    pub(crate) fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    fn bytes(&self, head_only: bool) -> Vec<u8> {
        let mut text =
            format!("HTTP/1.1 {} x\r\ncontent-length: {}\r\n", self.status, self.body.len());
        text.extend(self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")));
        let mut bytes = format!("{text}\r\n").into_bytes();
        if !head_only {
            bytes.extend(&self.body);
        }
        bytes
    }
}

/// What goes wrong with a request.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// Another answer, after the body was read; nothing else happens.
    Answer(Answer),
    /// The connection ends before the body is read.
    Cut,
    /// It ends when half of the body was read.
    CutBody,
    /// It ends in the middle of the right answer; everything has happened.
    CutAnswer,
    /// Nothing is said for so long, then it ends.
    Silence(Duration),
    /// What is right happens, but so much later.
    Slow(Duration),
    /// These bytes are the answer, whatever they are; then the connection ends.
    Bytes(&'static [u8]),
    /// What is right happens, but is told with this header.
    Header(&'static str, String),
}

pub(crate) trait Service: Send + Sync + 'static {
    /// Sees the head of each request first.
    fn fault(&self, asked: &Asked) -> Option<Fault>;
    fn answer(&self, asked: &Asked, body: &[u8]) -> Answer;
}

/// Serves until the test process ends.
pub(crate) fn serve(
    tls: Option<Arc<ServerConfig>>,
    service: Arc<impl Service>,
) -> Outcome<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("a port")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (tls, service) = (tls.clone(), service.clone());
            std::thread::spawn(move || {
                stream.set_read_timeout(Some(Duration::from_secs(60))).ok();
                match tls.map(ServerConnection::new) {
                    Some(Ok(connection)) => {
                        connection_of(StreamOwned::new(connection, stream), &*service)
                    }
                    Some(Err(_)) => None,
                    None => connection_of(stream, &*service),
                }
            });
        }
    });
    Ok(address)
}

/// `None` at the end of the connection, whoever ended it.
fn connection_of(stream: impl Read + Write, service: &impl Service) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let asked = head(&mut stream)?;
        let fault = service.fault(&asked);
        let mut body = vec![
            0;
            if matches!(fault, Some(Fault::CutBody)) {
                asked.length() / 2
            } else {
                asked.length()
            }
        ];
        match fault {
            Some(Fault::Cut) => return None,
            Some(Fault::Silence(time)) => {
                std::thread::sleep(time);
                return None;
            }
            _ => stream.read_exact(&mut body).ok()?,
        }
        let (bytes, goes_on) = reply(fault, &asked, &body, service);
        stream.get_mut().write_all(&bytes).ok()?;
        stream.get_mut().flush().ok()?;
        if !goes_on {
            return None;
        }
    }
}

/// What is sent, and whether the connection goes on.
fn reply(
    fault: Option<Fault>,
    asked: &Asked,
    body: &[u8],
    service: &impl Service,
) -> (Vec<u8>, bool) {
    let head_only = asked.method == "HEAD";
    let right = || service.answer(asked, body);
    match fault {
        Some(Fault::Answer(answer)) => (answer.bytes(head_only), true),
        Some(Fault::Bytes(bytes)) => (bytes.to_vec(), false),
        Some(Fault::CutBody) => (Vec::new(), false),
        Some(Fault::Header(name, value)) => (right().with(name, value).bytes(head_only), true),
        Some(Fault::CutAnswer) => (right().bytes(true)[..20].to_vec(), false),
        Some(Fault::Slow(time)) => {
            std::thread::sleep(time);
            (right().bytes(head_only), true)
        }
        Some(Fault::Cut | Fault::Silence(_)) | None => (right().bytes(head_only), true),
    }
}

fn head(stream: &mut BufReader<impl Read>) -> Option<Asked> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut words = lines.first()?.split(' ').map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let header = |line: &String| {
        line.split_once(':')
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    Some(Asked { method, target, headers: lines.iter().skip(1).filter_map(header).collect() })
}
