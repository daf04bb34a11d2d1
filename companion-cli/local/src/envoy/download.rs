//! Downloads files over HTTP, with time-outs for connecting and for silence, a size limit, and
//! retries of temporary errors.

use super::Places;
use super::files::HashingFile;
use super::places::Limits;
use laststream_base::progress::Progress;
use laststream_http::redirect::{FollowError, follow};
use laststream_http::retry::{Retryable, with_retries};
use laststream_http::url::Url;
use laststream_http::{self as client, HttpError, Request, Response, Settings, Trust};

use std::io::{self, Write};
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub(crate) enum DownloadError {
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("the server answers with status {0}")]
    Status(u16),
    #[error("its redirect to `{to}` is not followed: {why}")]
    Redirect { to: String, why: String },
    #[error("cannot be written: {0}")]
    Write(#[from] io::Error),
    #[error("this is no address")]
    NoAddress,
}

impl Retryable for DownloadError {
    /// Unreachable and stalled servers are not retried, because there is another source, and three
    /// time-outs take too long.
    fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Http(HttpError::Interrupted(_)) | Self::Status(408 | 429 | 500 | 502 | 503 | 504)
        )
    }
}

impl From<FollowError> for DownloadError {
    fn from(lost: FollowError) -> Self {
        match lost {
            FollowError::Http { error, .. } => Self::Http(error),
            FollowError::Refused { to, why, .. } => Self::Redirect { to, why: why.to_string() },
            FollowError::Malformed { url, problem } => {
                Self::Redirect { to: url.to_string(), why: problem.to_owned() }
            }
        }
    }
}

pub(crate) struct Client<'a> {
    http: client::Client,
    limits: &'a Limits,
}

impl<'a> Client<'a> {
    pub(crate) fn new(places: &'a Places) -> Self {
        let limits = &places.limits;
        let http = client::Client::new(Settings {
            trust: Trust::default(),
            route: client::Route::with_proxy(places.proxy_from_env),
            keeps_connections: true,
            limits: limits.http.clone(),
        });
        Self { http, limits }
    }

    /// Downloads a file; the result is its SHA-256 in hexadecimal.
    pub(crate) fn file(
        &self,
        url: &str,
        to: &Path,
        progress: &dyn Progress,
    ) -> Result<String, DownloadError> {
        let url = Url::parse(url).ok_or(DownloadError::NoAddress)?;
        let attempt = || self.write(self.get(&url)?, to, progress);
        with_retries(self.limits.retries, attempt, |_, _| {})
    }

    fn get(&self, url: &Url) -> Result<Response, DownloadError> {
        let response = follow(&self.http, &Request::get(url), url, true)?;
        match response.status {
            200..300 => Ok(response),
            status => Err(DownloadError::Status(status)),
        }
    }

    fn write(
        &self,
        mut response: Response,
        to: &Path,
        progress: &dyn Progress,
    ) -> Result<String, DownloadError> {
        let (most, total) = (self.limits.size, response.length());
        let mut file = HashingFile::create(to)?;
        let mut buffer = vec![0; 256 << 10];
        while total.is_none_or(|total| total <= most) {
            let part = response.read(&mut buffer)?;
            if part.is_empty() {
                return Ok(file.finish());
            }
            if file.written() + part.len() as u64 > most {
                break;
            }
            file.write_all(part)?;
            progress.advanced(file.written(), total);
        }
        Err(HttpError::TooLarge(most).into())
    }
}
