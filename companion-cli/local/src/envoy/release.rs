//! Envoy's official releases: one binary for each machine.
//!
//! The server's own list of checksums is not used, because an attacker who changes the binary there
//! can change the list. The binary must have a pinned SHA-256.

use super::{FetchedBinary, Places, Wanted, error, files};
use laststream_base::causes::Context as _;
use laststream_base::progress::Progress;
use laststream_http::redirect::{FollowError, follow};
use laststream_http::retry::{Retryable, with_retries};
use laststream_http::url::Url;
use laststream_http::{Client, HttpError, Request, Route, Settings, Trust};
use std::path::Path;

/// The file of the release, and its checksum.
pub(crate) fn pinned(wanted: &Wanted) -> Result<(String, &'static str), String> {
    let platform = &wanted.places.platform;
    let file = platform.release_file(wanted.version).ok_or_else(|| error::no_build(platform))?;
    let sum = wanted.release_sum.ok_or_else(|| error::no_pin(&file))?;
    Ok((file, sum))
}

pub(crate) fn fetch(
    wanted: &Wanted,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<FetchedBinary, String> {
    let places = &wanted.places;
    let (file, pinned) = pinned(wanted)?;
    let url = format!("{}/v{}/{file}", places.releases, wanted.version);
    let binary = folder.join("envoy");
    let sum = download(places, &url, &binary, progress).context(format_args!("`{url}`"))?;
    if sum != pinned {
        return Err(format!(
            "`{url}` has the SHA-256 `{sum}`, not the expected `{pinned}`: it is not used"
        ));
    }
    Ok(FetchedBinary { binary, sha256: sum })
}

struct DownloadError {
    text: String,
    is_retryable: bool,
}

impl From<String> for DownloadError {
    fn from(text: String) -> Self {
        Self { text, is_retryable: false }
    }
}

impl From<HttpError> for DownloadError {
    fn from(error: HttpError) -> Self {
        // Unreachable and stalled servers are not retried, because three time-outs take too long.
        let is_retryable = matches!(error, HttpError::Interrupted(_));
        Self { is_retryable, ..error.to_string().into() }
    }
}

impl From<FollowError> for DownloadError {
    fn from(lost: FollowError) -> Self {
        let (to, why) = match lost {
            FollowError::Http { error, .. } => return error.into(),
            FollowError::Refused { to, why, .. } => (to, why.to_string()),
            FollowError::Malformed { url, problem } => (url.to_string(), problem.to_owned()),
        };
        format!("its redirect to `{to}` is not followed: {why}").into()
    }
}

impl Retryable for DownloadError {
    fn is_retryable(&self) -> bool {
        self.is_retryable
    }
}

/// Downloads a file; the result is its SHA-256 in hexadecimal.
fn download(
    places: &Places,
    url: &str,
    to: &Path,
    progress: &dyn Progress,
) -> Result<String, String> {
    let url = Url::parse(url).ok_or("this is not an address")?;
    let limits = &places.limits;
    let client = Client::new(Settings {
        trust: Trust::default(),
        route: Route::with_proxy(places.proxy_from_env),
        keeps_connections: true,
        limits: limits.http.clone(),
    });
    let attempt = || {
        let mut response = follow(&client, &Request::get(&url), &url, true)?;
        if !(200..300).contains(&response.status) {
            let status = response.status;
            let is_retryable = matches!(status, 408 | 429 | 500 | 502 | 503 | 504);
            let text = format!("the server answers with status {status}");
            return Err(DownloadError { text, is_retryable });
        }
        let (total, most) = (response.length(), limits.size);
        let next = |buffer: &mut [u8]| Ok(response.read(buffer)?.len());
        let saved = match total {
            Some(total) if total > most => None,
            _ => files::save::<DownloadError>(to, most, total, progress, next)?,
        };
        saved.map(|(sha256, _)| sha256).ok_or_else(|| HttpError::TooLarge(most).into())
    };
    with_retries(limits.retries, attempt, |_, _| {}).map_err(|error| error.text)
}
