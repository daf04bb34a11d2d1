//! A release server that answers as a test wants, faults included.

use ring::digest::{SHA256, digest};
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
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) fn start(answer: impl Fn(&str, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (known, answer): (_, Arc<Answer>) = (asked.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (asked, answer) = (known.clone(), answer.clone());
                std::thread::spawn(move || serve(stream, &asked, &*answer));
            }
        });
        Self { url, asked }
    }

    /// A release of 1.40.0 for x86_64, with a list that fits.
    pub(crate) fn release(binary: String) -> Self {
        Self::start(move |path, _| published(path, binary.as_bytes()))
    }

    /// Every path that was asked for.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn downloads(&self) -> usize {
        self.asked().iter().filter(|path| path.ends_with("x86_64")).count()
    }
}

pub(crate) fn published(path: &str, binary: &[u8]) -> Reply {
    match path {
        "/v1.40.0/checksums.txt.asc" => Reply::ok(list(&sha256(binary))),
        "/v1.40.0/envoy-1.40.0-linux-x86_64" => Reply::ok(binary),
        _ => Reply::status(404),
    }
}

pub(crate) fn list(sum: &str) -> String {
    format!(
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{}  envoy-1.40.0-linux-aarch_64\n{sum}  envoy-1.40.0-linux-x86_64\n\
         -----BEGIN PGP SIGNATURE-----\n\niQIz\n-----END PGP SIGNATURE-----\n",
        "0".repeat(64)
    )
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn serve(mut stream: TcpStream, asked: &Mutex<Vec<String>>, answer: &Answer) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let before = {
            let mut asked = asked.lock().unwrap();
            asked.push(path.clone());
            asked.iter().filter(|known| **known == path).count() - 1
        };
        let reply = answer(&path, before);
        let length = reply.body.len();
        let head = format!("HTTP/1.1 {} x\r\ncontent-length: {length}\r\n{}\r\n", reply.status, reply.headers);
        let (until, wait) = reply.stop.unwrap_or((length, Duration::ZERO));
        let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&reply.body[..until]));
        std::thread::sleep(wait);
        if sent.is_err() || until < length {
            // Dropping the reader too closes the connection.
            return;
        }
    }
}
