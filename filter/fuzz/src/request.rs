//! Requests as text, so that seeds can be read and a dictionary helps.
//!
//! ```text
//! peer 10.0.0.1
//! identity spiffe://a/b
//! tls
//! :path /a
//! x-forwarded-proto https
//! ```

use crate::map::Header;

/// A request, and the connection that it came on.
#[derive(Debug, Default)]
pub struct Request {
    /// The filter state of the direct peer.
    pub peer: Option<Vec<u8>>,
    /// The first URI of the peer's certificate.
    pub identity: Option<Vec<u8>>,
    /// Whether the connection is encrypted with TLS.
    pub tls: bool,
    /// The headers, names in lower case as Envoy keeps them.
    pub headers: Vec<Header>,
}

impl Request {
    /// Reads a request. Every text is a valid request.
    pub fn read(text: &[u8]) -> Self {
        let mut request = Self::default();
        for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let mut halves = line.splitn(2, |&byte| byte == b' ');
            let name = halves.next().unwrap_or_default();
            let value = halves.next().unwrap_or_default().to_vec();
            match name {
                b"peer" => request.peer = Some(value),
                b"identity" => request.identity = Some(value),
                b"tls" => request.tls = true,
                name => request.headers.push((name.to_ascii_lowercase(), value)),
            }
        }
        request
    }

    /// The values of a header.
    pub fn values<'r>(&'r self, name: &'r str) -> impl Iterator<Item = &'r [u8]> {
        self.headers
            .iter()
            .filter(move |(other, _)| other == name.as_bytes())
            .map(|(_, value)| value.as_slice())
    }
}
