//! A fake release server.

use crate::support::Home;
use kit::fake_server::{Answer, FakeServer, Fault};
use laststream_base::digest::Digest;
use laststream_local::envoy::Wanted;

pub(crate) type Reply = Result<Answer, Fault>;

/// Serves until the test process ends.
pub(crate) struct Server {
    pub(crate) url: String,
    /// The checksum of the Envoy that it has, or should have.
    pub(crate) sha256: &'static str,
    server: FakeServer,
}

impl Server {
    /// The script sees the path, and how often it was asked for before.
    pub(crate) fn start(script: impl Fn(&str, usize) -> Reply + Send + Sync + 'static) -> Self {
        let server = FakeServer::start(move |asked, before| script(&asked.target, before)).unwrap();
        let sha256 = leaked_sum(crate::support::envoy("1.40.0").as_bytes());
        Self { url: server.url(""), sha256, server }
    }

    /// A release of 1.40.0 for x86_64.
    pub(crate) fn release(binary: String) -> Self {
        let sha256 = leaked_sum(binary.as_bytes());
        Self { sha256, ..Self::start(move |path, _| published(path, binary.as_bytes())) }
    }

    /// Every path that was requested.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.server.asked().into_iter().map(|asked| asked.target).collect()
    }

    pub(crate) fn downloads(&self) -> usize {
        self.asked().iter().filter(|path| path.ends_with("x86_64")).count()
    }
}

/// A search with the checksum of the Envoy that this server should have.
pub(crate) fn pinned(home: &Home, server: &Server) -> Wanted {
    Wanted { release_sum: Some(server.sha256), ..home.wanted(&server.url) }
}

pub(crate) fn status(status: u16) -> Reply {
    Ok(Answer::new(status))
}

pub(crate) fn published(path: &str, binary: &[u8]) -> Reply {
    match path {
        "/v1.40.0/envoy-1.40.0-linux-x86_64" => Ok(Answer::new(200).body(binary)),
        _ => status(404),
    }
}

/// A checksum that lives as long as the pinned ones.
fn leaked_sum(bytes: &[u8]) -> &'static str {
    sha256(bytes).leak()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Digest::of(bytes).hex().to_owned()
}
