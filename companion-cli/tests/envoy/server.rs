//! A release server that answers as a test wants, faults included.

use laststream::digest::Digest;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// One answer.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: String,
    pub(crate) body: Vec<u8>,
    /// Send so much of the body, then wait so long, then close.
    pub(crate) stop: Option<(usize, Duration)>,
}

impl Reply {
    pub(crate) fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, headers: String::new(), body: body.into(), stop: None }
    }

    pub(crate) fn status(status: u16) -> Self {
        Self { status, ..Self::ok("") }
    }
}

/// Decides by the path and by how often it was asked for before.
type Answer = dyn Fn(&str, usize) -> Reply + Send + Sync;

/// Serves until the test process ends.
pub(crate) struct Server {
    pub(crate) url: String,
    /// Of the Envoy that it has, or should have.
    pub(crate) sha256: String,
    asked: Arc<Mutex<Vec<String>>>,
    logins: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) fn start(answer: impl Fn(&str, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asked, logins) =
            (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let (known, shown, answer): (_, _, Arc<Answer>) =
            (asked.clone(), logins.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (asked, logins, answer) = (known.clone(), shown.clone(), answer.clone());
                std::thread::spawn(move || serve(stream, &asked, &logins, &*answer));
            }
        });
        Self { url, sha256: sha256(crate::support::envoy("1.40.0").as_bytes()), asked, logins }
    }

    /// A release of 1.40.0 for x86_64.
    pub(crate) fn release(binary: String) -> Self {
        let sha256 = sha256(binary.as_bytes());
        Self { sha256, ..Self::start(move |path, _| published(path, binary.as_bytes())) }
    }

    /// Every path that was asked for.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// What was shown in `Authorization`.
    pub(crate) fn logins(&self) -> Vec<String> {
        self.logins.lock().unwrap().clone()
    }

    pub(crate) fn downloads(&self) -> usize {
        self.asked().iter().filter(|path| path.ends_with("x86_64")).count()
    }
}

pub(crate) fn published(path: &str, binary: &[u8]) -> Reply {
    match path {
        "/v1.40.0/checksums.txt.asc" => {
            Reply::ok(format!("{}  envoy-1.40.0-linux-x86_64\n", sha256(binary)))
        }
        "/v1.40.0/envoy-1.40.0-linux-x86_64" => Reply::ok(binary),
        _ => Reply::status(404),
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Digest::of(bytes).hex().to_owned()
}

fn serve(
    mut stream: TcpStream,
    asked: &Mutex<Vec<String>>,
    logins: &Mutex<Vec<String>>,
    answer: &Answer,
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let shown = head
            .lines()
            .filter(|line| line.to_lowercase().starts_with("authorization:"))
            .map(|line| line[14..].trim().to_owned());
        logins.lock().unwrap().extend(shown);
        let before = {
            let mut asked = asked.lock().unwrap();
            asked.push(path.clone());
            asked.iter().filter(|known| **known == path).count() - 1
        };
        let reply = answer(&path, before);
        let length = reply.body.len();
        let head = format!(
            "HTTP/1.1 {} x\r\ncontent-length: {length}\r\n{}\r\n",
            reply.status, reply.headers
        );
        let (until, wait) = reply.stop.unwrap_or((length, Duration::ZERO));
        let sent =
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&reply.body[..until]));
        std::thread::sleep(wait);
        if sent.is_err() || until < length {
            // Dropping the reader too closes the connection.
            return;
        }
    }
}
