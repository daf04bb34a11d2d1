//! A fake release server.

use crate::envoy_command::support::Home;
use kit::fake_server::{Answer, FakeServer, Fault};
use laststream_base::digest::Digest;
use laststream_local::envoy::Wanted;

pub(crate) type Reply = Result<Answer, Fault>;

/// A server with a release of 1.40.0 for x86_64.
pub(crate) fn release(binary: String) -> FakeServer {
    FakeServer::start(move |asked, _| published(&asked.target, binary.as_bytes())).unwrap()
}

pub(crate) fn published(path: &str, binary: &[u8]) -> Reply {
    match path {
        "/v1.40.0/envoy-1.40.0-linux-x86_64" => Ok(Answer::new(200).body(binary)),
        _ => Ok(Answer::new(404)),
    }
}

pub(crate) fn downloads(server: &FakeServer) -> usize {
    server.asked().iter().filter(|asked| asked.target.ends_with("x86_64")).count()
}

/// A search on this server with the checksum of this binary.
pub(crate) fn pinned(home: &Home, server: &FakeServer, binary: &str) -> Wanted {
    // It lives as long as the pinned ones.
    let sum: &'static str = sha256(binary.as_bytes()).leak();
    Wanted { release_sum: Some(sum), ..home.wanted(&server.url("")) }
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Digest::of(bytes).hex().to_owned()
}
