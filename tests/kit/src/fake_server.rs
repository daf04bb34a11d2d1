//! The one fake HTTP/1.1 server: it answers as a script says, can cut its connections at any place,
//! and speaks TLS on request. [`FakeServer`] is the plain form; a [`Service`] has a state of its
//! own.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::{Shutdown, shutdown};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::{Context as _, Outcome, locked, port_forward};

/// The head of a request.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: String,
    /// With the query.
    pub target: String,
    headers: Vec<(String, String)>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All values of that name, in their order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let same = self.headers.iter().filter(|(known, _)| known == name);
        same.map(|(_, value)| value.as_str()).collect()
    }

    /// Method and target.
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.target)
    }

    /// Whether this is the line of the request, with or without its query.
    pub fn is(&self, line: &str) -> bool {
        self.line() == line || format!("{} {}", self.method, self.path()) == line
    }

    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// A parameter of the query, not decoded.
    pub fn parameter(&self, name: &str) -> Option<&str> {
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
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    fn closes(&self) -> bool {
        self.headers.iter().any(|(name, value)| name == "connection" && value == "close")
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

/// A fault in serving a request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// This answer is sent after the body was read, and the service does nothing.
    Answer(Answer),
    /// The connection ends before the body is read.
    Cut,
    /// The connection ends when half of the body was read.
    CutBody,
    /// The service processes the request, but the connection ends in the middle of its answer.
    CutAnswer,
    /// The server sends nothing for this time, then the connection ends.
    Silence(Duration),
    /// These raw bytes are sent as the answer, then the connection ends.
    Bytes(&'static [u8]),
    /// The service answers, and its answer gets this header.
    Header(&'static str, String),
    /// This number of bytes of the answer's body is sent; after the pause the connection ends.
    Part(Answer, usize, Duration),
    /// The server ends: its port is closed.
    End,
    /// The server forwards the port that the request names to this address, as Kubernetes does.
    Forward(SocketAddr),
}

pub trait Service: Send + Sync + 'static {
    /// Called before the body of a request is read.
    fn fault(&self, _: &Asked) -> Option<Fault> {
        None
    }
    fn answer(&self, asked: &Asked, body: &[u8]) -> Answer;
}

/// Serves the answers of a script, and keeps the heads of all requests.
pub struct FakeServer {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

type Script = dyn Fn(&Asked, usize) -> Result<Answer, Fault> + Send + Sync;

struct Scripted {
    script: Box<Script>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl FakeServer {
    /// The script gets a request, and the number of earlier requests for the same target.
    pub fn start(
        script: impl Fn(&Asked, usize) -> Result<Answer, Fault> + Send + Sync + 'static,
    ) -> Outcome<Self> {
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let scripted = Scripted { script: Box::new(script), asked: Arc::clone(&asked) };
        Ok(Self { address: serve(None, Arc::new(scripted))?, asked })
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn asked(&self) -> Vec<Asked> {
        locked(&self.asked).clone()
    }
}

impl Service for Scripted {
    fn fault(&self, asked: &Asked) -> Option<Fault> {
        let before = {
            let mut all = locked(&self.asked);
            all.push(asked.clone());
            all.iter().filter(|other| other.target == asked.target).count() - 1
        };
        Some((self.script)(asked, before).map_or_else(|fault| fault, Fault::Answer))
    }

    fn answer(&self, _: &Asked, _: &[u8]) -> Answer {
        Answer::new(500) // the script has decided already
    }
}

/// Replies by method and target, or by method and path, which a test can change at any time. Other
/// requests get 404.
#[derive(Clone, Default)]
pub struct Replies(Arc<Mutex<HashMap<String, Result<Answer, Fault>>>>);

impl Replies {
    pub fn set(&self, line: &str, reply: Result<Answer, Fault>) {
        locked(&self.0).insert(line.to_owned(), reply);
    }

    /// Starts a server that ends each connection after its first answer.
    pub fn serve(&self) -> Outcome<FakeServer> {
        let replies = self.clone();
        FakeServer::start(move |asked, _| {
            let replies = locked(&replies.0);
            let whole = replies.get(&asked.line());
            let reply = whole.or_else(|| Some(replies.iter().find(|(line, _)| asked.is(line))?.1));
            let reply = reply.cloned();
            Ok(reply.unwrap_or(Ok(Answer::new(404)))?.with("connection", "close"))
        })
    }
}

/// Serves until the test process ends.
pub fn serve(tls: Option<Arc<ServerConfig>>, service: Arc<impl Service>) -> Outcome<SocketAddr> {
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").context("a port")?);
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        loop {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(_) => return, // `Fault::End`
            };
            let (tls, service, listener) = (tls.clone(), service.clone(), listener.clone());
            std::thread::spawn(move || {
                stream.set_read_timeout(Some(Duration::from_secs(60))).ok();
                match tls.map(ServerConnection::new) {
                    Some(Ok(connection)) => {
                        connection_of(StreamOwned::new(connection, stream), &*service, &listener)
                    }
                    Some(Err(_)) => None,
                    None => connection_of(stream, &*service, &listener),
                }
            });
        }
    });
    Ok(address)
}

/// `None` at the end of the connection.
fn connection_of(
    stream: impl Read + Write,
    service: &impl Service,
    listener: &TcpListener,
) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let asked = head(&mut stream)?;
        let fault = service.fault(&asked);
        let divisor = if matches!(fault, Some(Fault::CutBody)) { 2 } else { 1 };
        let mut body = vec![0; asked.length() / divisor];
        match fault {
            Some(Fault::Cut) => return None,
            Some(Fault::Silence(time)) => {
                std::thread::sleep(time);
                return None;
            }
            Some(Fault::End) => {
                shutdown(listener, Shutdown::Both).ok();
                return None;
            }
            Some(Fault::Forward(to)) => return port_forward::serve(&mut stream, &asked, to),
            _ => stream.read_exact(&mut body).ok()?,
        }
        let pause = if let Some(Fault::Part(_, _, pause)) = fault { pause } else { Duration::ZERO };
        let (bytes, goes_on) = reply(fault, &asked, &body, service);
        stream.get_mut().write_all(&bytes).ok()?;
        stream.get_mut().flush().ok()?;
        std::thread::sleep(pause);
        if !goes_on {
            return None;
        }
    }
}

/// The bytes to send, and whether the connection stays open.
fn reply(
    fault: Option<Fault>,
    asked: &Asked,
    body: &[u8],
    service: &impl Service,
) -> (Vec<u8>, bool) {
    let head_only = asked.method == "HEAD";
    let right = || service.answer(asked, body);
    match fault {
        Some(Fault::Answer(answer)) => (answer.bytes(head_only), !answer.closes()),
        Some(Fault::Part(answer, length, _)) => {
            let (mut bytes, head) = (answer.bytes(head_only), answer.bytes(true).len());
            bytes.truncate(head + length);
            (bytes, false)
        }
        Some(Fault::Bytes(bytes)) => (bytes.to_vec(), false),
        Some(Fault::CutBody) => (Vec::new(), false),
        Some(Fault::Header(name, value)) => (right().with(name, value).bytes(head_only), true),
        Some(Fault::CutAnswer) => (right().bytes(true)[..20].to_vec(), false),
        Some(Fault::Cut | Fault::Silence(_) | Fault::End | Fault::Forward(_)) | None => {
            (right().bytes(head_only), true)
        }
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
