//! Errors of HTTP requests. The chain of sources decides which error it is.

use std::error::Error;
use std::io;
use std::time::Duration;

use super::Limits;
use laststream_base::causes::with_sources;

/// The reason why a request has no response, or only a part of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// No program listens at the address.
    #[error("the connection failed: {0}")]
    Refused(String),
    /// The name of the host has no address.
    #[error("there is no host of that name")]
    NoHost,
    /// No connection can be made.
    #[error("the connection failed: {0}")]
    Unreachable(String),
    /// The connection ended before the answer did.
    #[error("the connection failed: {0}")]
    Interrupted(String),
    /// TLS failed, for example because the certificate is not trusted.
    #[error("TLS: {0}")]
    Tls(String),
    /// The server shows the certificate of an authority, as `openssl req -x509` makes it without
    /// further options.
    #[error(
        "TLS: the server shows the certificate of an authority (`CA:TRUE`), which is refused even \
            if it is trusted: make the server's with `-addext basicConstraints=critical,CA:FALSE`, \
            and trust that"
    )]
    AuthorityAsServer,
    /// The server was silent for too long.
    #[error("nothing came for {} s while {during}", .limit.as_secs_f32())]
    Timeout {
        /// The phase, as a participle.
        during: &'static str,
        /// The limit of this phase.
        limit: Duration,
    },
    /// The whole answer took longer than this.
    #[error("not complete after {} s", .0.as_secs_f32())]
    TooSlow(Duration),
    /// The answer is larger than this number of bytes.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(u64),
    /// Another error, in words.
    #[error("{0}")]
    Other(String),
}

/// The phase of a time-out that is one of connecting.
pub(crate) const CONNECTING: &str = "connecting";

impl HttpError {
    pub(super) fn of(error: &(dyn Error + 'static), limits: &Limits) -> Self {
        let cause = Cause::of(error);
        match cause.reqwest {
            Some((true, true)) => {
                return Self::Timeout { during: CONNECTING, limit: limits.connect };
            }
            Some((true, false)) => {
                return Self::Timeout { during: "waiting for its answer", limit: limits.silence };
            }
            _ => {}
        }
        if cause.is_dns {
            return Self::NoHost;
        }
        let text =
            || cause.io.as_ref().map_or_else(|| with_sources(error), |(_, text)| text.clone());
        match cause.io.as_ref().map(|(kind, _)| *kind) {
            Some(kind) => of_kind(kind, text(), limits),
            None if cause.is_cut => Self::Interrupted("it ended before the answer did".to_owned()),
            None if cause.reqwest.is_some_and(|(_, connecting)| connecting) => {
                Self::Unreachable(with_sources(error))
            }
            None => Self::Other(with_sources(error)),
        }
    }

    /// Whether the same request may succeed a moment later.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Refused(_) | Self::Unreachable(_) | Self::Interrupted(_) | Self::Timeout { .. }
        )
    }
}

fn of_kind(kind: io::ErrorKind, text: String, limits: &Limits) -> HttpError {
    use io::ErrorKind::{
        AddrNotAvailable, BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset,
        HostUnreachable, Interrupted, InvalidData, NetworkDown, NetworkUnreachable, NotConnected,
        TimedOut, UnexpectedEof, WouldBlock,
    };
    match kind {
        ConnectionRefused => HttpError::Refused(text),
        AddrNotAvailable | HostUnreachable | NetworkDown | NetworkUnreachable => {
            HttpError::Unreachable(text)
        }
        TimedOut => HttpError::Timeout { during: "waiting for its answer", limit: limits.silence },
        BrokenPipe | ConnectionAborted | ConnectionReset | Interrupted | NotConnected
        | UnexpectedEof | WouldBlock => HttpError::Interrupted(text),
        // errors that rustls finds in the peer's data
        InvalidData if text.contains("CaUsedAsEndEntity") => HttpError::AuthorityAsServer,
        InvalidData => HttpError::Tls(text),
        _ => HttpError::Other(text),
    }
}

/// The findings in the chain of an error's sources.
#[derive(Default)]
struct Cause {
    /// Whether the error is a time-out, and whether it is about connecting.
    reqwest: Option<(bool, bool)>,
    is_dns: bool,
    /// Whether the peer closed the connection in the middle of the response.
    is_cut: bool,
    /// The last error of the operating system or of TLS.
    io: Option<(io::ErrorKind, String)>,
}

impl Cause {
    fn of(error: &(dyn Error + 'static)) -> Self {
        let mut cause = Self::default();
        let mut next = Some(error);
        while let Some(error) = next {
            cause.add(error);
            // An I/O error can hold another error beside its sources.
            let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            next = inner.map(|held| held as &(dyn Error + 'static)).or_else(|| error.source());
        }
        cause
    }

    fn add(&mut self, error: &(dyn Error + 'static)) {
        if let Some(error) = error.downcast_ref::<reqwest::Error>() {
            let (timeout, connecting) = self.reqwest.unwrap_or_default();
            self.reqwest = Some((timeout || error.is_timeout(), connecting || error.is_connect()));
            self.is_dns |= error.is_dns();
        } else if let Some(error) = error.downcast_ref::<io::Error>() {
            let is_wrapper = error.get_ref().is_some_and(|held| held.is::<reqwest::Error>())
                && error.kind() == io::ErrorKind::Other;
            if !is_wrapper {
                self.io = Some((error.kind(), error.to_string()));
            }
        }
        let text = error.to_string();
        let cut = [
            "connection closed before message completed",
            "end of file before message length reached",
            "unexpected EOF",
        ];
        self.is_cut |= cut.iter().any(|cut| text.contains(cut));
    }
}
