//! Gets files over HTTP: with short time-outs for connecting, one for silence, a limit on the size, and further tries where they can help.

use super::Places;
use super::files::HashingFile;
use super::places::Limits;
use crate::causes::with_sources;
use crate::progress::Progress;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;
use ureq::config::Config;
use ureq::http::Response;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

/// A list of checksums is a few hundred bytes.
const TEXT_LIMIT: u64 = 1 << 20;

/// Why nothing came.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The server is not there: its name, the connection or TLS.
    #[error("not reachable: {0}")]
    Unreachable(String),
    /// The server has an answer, but not the file.
    #[error("the server answers with status {0}")]
    Status(u16),
    /// The connection ended in the middle.
    #[error("interrupted: {0}")]
    Interrupted(String),
    /// Silence.
    #[error("nothing came for {} s", .0.as_secs_f32())]
    Stalled(Duration),
    /// The whole took too long.
    #[error("not complete after {} s", .0.as_secs_f32())]
    TooSlow(Duration),
    /// More than an Envoy.
    #[error("larger than {0} bytes")]
    TooLarge(u64),
    /// The file could not be written.
    #[error("cannot be written: {0}")]
    Write(io::Error),
}

impl HttpError {
    /// Whether the same request can have another end a moment later. What is unreachable is not tried again: there is another source,
    /// and nobody wants to wait for three time-outs; what stalled has cost enough.
    fn is_passing(&self) -> bool {
        matches!(self, Self::Interrupted(_) | Self::Status(408 | 429 | 500 | 502 | 503 | 504))
    }
}

/// Talks to one server.
pub(crate) struct Client<'a> {
    agent: Agent,
    limits: &'a Limits,
}

impl<'a> Client<'a> {
    pub(crate) fn new(places: &'a Places) -> Self {
        let limits = &places.limits;
        let mut config = Agent::config_builder()
            .timeout_resolve(Some(limits.resolve))
            .timeout_connect(Some(limits.connect))
            .timeout_per_read(Some(limits.stall))
            .timeout_per_write(Some(limits.stall))
            .timeout_global(Some(limits.download))
            // What begins encrypted stays so. A mirror inside a network may be without TLS.
            .https_only(places.mirror.starts_with("https:"))
            .max_redirects(5)
            .user_agent(concat!("laststream/", env!("CARGO_PKG_VERSION")))
            .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build());
        if !places.proxy_from_env {
            config = config.proxy(None);
        }
        let config: Config = config.build();
        Self { agent: config.into(), limits }
    }

    /// A small text.
    pub(crate) fn text(&self, url: &str) -> Result<String, HttpError> {
        self.several_times(|| {
            let mut body = self.get(url)?.into_body().into_with_config().limit(TEXT_LIMIT).reader();
            let mut bytes = Vec::new();
            body.read_to_end(&mut bytes).map_err(|error| self.while_reading(error, TEXT_LIMIT))?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        })
    }

    /// A file; the result is its SHA-256 in hexadecimal.
    pub(crate) fn file(&self, url: &str, to: &Path, progress: &dyn Progress) -> Result<String, HttpError> {
        self.several_times(|| {
            let response = self.get(url)?;
            let total = response.body().content_length();
            if total.is_some_and(|total| total > self.limits.size) {
                return Err(HttpError::TooLarge(self.limits.size));
            }
            let mut body = response.into_body().into_with_config().limit(self.limits.size).reader();
            let mut file = HashingFile::create(to).map_err(HttpError::Write)?;
            let mut buffer = vec![0; 256 << 10];
            loop {
                let count = body.read(&mut buffer).map_err(|error| self.while_reading(error, self.limits.size))?;
                if count == 0 {
                    return Ok(file.finish());
                }
                file.write_all(buffer.get(..count).unwrap_or_default()).map_err(HttpError::Write)?;
                progress.advanced(file.written(), total);
            }
        })
    }

    fn get(&self, url: &str) -> Result<Response<Body>, HttpError> {
        self.agent.get(url).call().map_err(|error| self.told(error, self.limits.size))
    }

    fn several_times<T>(&self, get: impl Fn() -> Result<T, HttpError>) -> Result<T, HttpError> {
        for pause in &self.limits.pauses {
            match get() {
                Err(error) if error.is_passing() => std::thread::sleep(*pause),
                result => return result,
            }
        }
        get()
    }

    fn while_reading(&self, error: io::Error, limit: u64) -> HttpError {
        self.told(error.into(), limit)
    }

    fn told(&self, error: ureq::Error, limit: u64) -> HttpError {
        use ureq::{Error, Timeout};
        match error {
            Error::StatusCode(status) => HttpError::Status(status),
            Error::Timeout(Timeout::Resolve) => {
                HttpError::Unreachable(format!("no address within {} s", self.limits.resolve.as_secs_f32()))
            }
            Error::Timeout(Timeout::Connect) => {
                HttpError::Unreachable(format!("no connection within {} s", self.limits.connect.as_secs_f32()))
            }
            Error::Timeout(Timeout::PerRead | Timeout::PerWrite) => HttpError::Stalled(self.limits.stall),
            Error::Timeout(_) => HttpError::TooSlow(self.limits.download),
            Error::BodyExceedsLimit(_) => HttpError::TooLarge(limit),
            Error::Io(error) if is_end(error.kind()) => HttpError::Interrupted(error.to_string()),
            // What is wrong with a certificate is in the sources, not in the first text.
            error => HttpError::Unreachable(with_sources(&error)),
        }
    }
}

fn is_end(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(kind, BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}
