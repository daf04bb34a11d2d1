//! Reads one message of HTTP/1.1 from a connection, with limits on time and size.

use std::io::{self, ErrorKind, Read as _};
use std::net::TcpStream;
use std::time::Instant;

use httparse::Header;

/// Reads until `parse` has the whole message; its second argument says whether the connection has
/// ended. None: this is not HTTP, is longer than `most` bytes, or has ended early.
pub(super) fn read<T>(
    stream: &mut TcpStream,
    until: Instant,
    most: usize,
    parse: impl Fn(&[u8], bool) -> Option<Option<T>>,
) -> io::Result<Option<T>> {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 16 << 10]);
    loop {
        let time_left = until.saturating_duration_since(Instant::now());
        if time_left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(time_left))?;
        let count = stream.read(&mut chunk)?;
        bytes.extend_from_slice(&chunk[..count]);
        match parse(&bytes, count == 0) {
            Some(None) if count > 0 && bytes.len() <= most => {}
            message => return Ok(message.flatten()),
        }
    }
}

/// The value of the first header with this name.
pub(super) fn header<'h>(headers: &[Header<'h>], name: &str) -> Option<&'h [u8]> {
    headers.iter().find(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
}

/// The length of the body, if a header says it.
pub(super) fn content_length(headers: &[Header<'_>]) -> Option<usize> {
    std::str::from_utf8(header(headers, "content-length")?).ok()?.trim().parse().ok()
}
