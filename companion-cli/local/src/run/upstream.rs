//! The app that requests go to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_millis(500);

/// The app's address, and whether the app is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upstream {
    pub at: SocketAddr,
    pub is_there: bool,
}

/// Reads `HOST:PORT`, or a port on this machine. Of several addresses, the first that takes a
/// connection is used.
pub fn find(text: &str) -> Result<Upstream, String> {
    let all: Vec<SocketAddr> = match text.parse::<u16>() {
        Ok(port) => vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()],
        Err(_) => text.to_socket_addrs().map_err(|error| not_found(text, &error))?.collect(),
    };
    if let Some(at) = all.iter().find(|at| TcpStream::connect_timeout(at, PATIENCE).is_ok()) {
        return Ok(Upstream { at: *at, is_there: true });
    }
    let usual = all.iter().find(|at| matches!(at.ip(), IpAddr::V4(_))).or(all.first());
    match usual {
        Some(at) if at.port() != 0 => Ok(Upstream { at: *at, is_there: false }),
        _ => Err(format!("`{text}` is no address of an app: write `HOST:PORT`")),
    }
}

/// What is wrong with a text that is no address.
fn not_found(text: &str, error: &std::io::Error) -> String {
    match text.split_once("://") {
        Some((scheme, rest)) => {
            format!("`{text}` is a URL: leave `{scheme}://` out, and write `HOST:PORT` of `{rest}`")
        }
        None if !text.contains(':') => format!("`{text}` has no port: write `{text}:PORT`"),
        None => format!("`{text}` is not `HOST:PORT`, or the host is not known: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn what_is_no_address_is_told_what_lacks() {
        for (text, lacks) in [
            ("localhost", "`localhost` has no port: write `localhost:PORT`"),
            ("http://localhost:8080", "is a URL: leave `http://` out"),
            ("localhost:x", "is not `HOST:PORT`"),
        ] {
            let error = find(text).unwrap_err();
            assert!(error.contains(lacks), "{error}");
        }
    }
}
