//! The response of a registry, with its body.

use http::HeaderMap;

use laststream_http::url::Url;
use laststream_http::{HttpError, Response};

#[derive(Debug)]
pub(super) struct RegistryResponse {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// The address that answered, after redirects.
    pub(super) url: Url,
    /// Whether the response is a 401, and the next request has a new token.
    pub(super) renewed: bool,
}

impl RegistryResponse {
    /// Reads the body, which may have at most `limit` bytes.
    pub(super) fn read(response: Response, limit: u64) -> Result<Self, HttpError> {
        let (status, headers, url) =
            (response.status, response.headers.clone(), response.url.clone());
        Ok(Self { status, headers, body: response.bytes(limit)?, url, renewed: false })
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}
