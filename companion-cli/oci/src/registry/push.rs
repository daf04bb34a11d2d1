//! Pushes an image to a registry: first its blobs, then the manifest with the tag.

use http::Method;

use super::auth::Scope;
use super::error::RegistryError;
use super::response::RegistryResponse;
use super::{Call, Registry, Repository};
use crate::image::{Descriptor, Image, MANIFEST};
use laststream_base::digest::Digest;

/// The limit for a response to a push in bytes.
const LARGEST_ANSWER: u64 = 1 << 20;
const BEGINNING: &str = "beginning an upload";

/// The way in which a blob came to its repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub enum Arrival {
    /// The blob was sent.
    #[strum(to_string = "sent")]
    Sent,
    /// The registry has had it before.
    #[strum(to_string = "is there already")]
    Present,
}

impl Registry<'_> {
    /// Sends the blobs that the registry does not have. No tag points to them yet.
    pub fn push_blobs(
        &self,
        repository: &str,
        image: &Image,
    ) -> Result<[Arrival; 2], RegistryError> {
        let repository = self.to_push(repository);
        let [(layer, layer_bytes), (config, config_bytes)] = image.blobs();
        Ok([
            repository.push_blob(&layer, layer_bytes)?,
            repository.push_blob(&config, config_bytes)?,
        ])
    }

    /// Tags the image. The registry does this atomically.
    pub fn push_manifest(
        &self,
        repository: &str,
        tag: &str,
        image: &Image,
    ) -> Result<(), RegistryError> {
        let repository = self.to_push(repository);
        let action = "publishing the manifest";
        let url = repository.url(&format!("manifests/{tag}"));
        let call = Call {
            headers: vec![("content-type", MANIFEST.to_owned())],
            body: Some(&image.manifest),
            allow_other_host: false,
            ..Call::new(action, Method::PUT, url, LARGEST_ANSWER)
        };
        self.with_retries(|| {
            let answer = repository.accepted(action, repository.call(&call)?)?;
            check_digest(
                &format!("the manifest of `{}/{}:{tag}`", self.name, repository.name),
                &answer,
                &image.digest,
            )
        })
    }

    pub(super) fn to_push<'a>(&'a self, repository: &'a str) -> Repository<'a> {
        Repository { registry: self, name: repository, scope: Scope::push(repository) }
    }
}

impl Repository<'_> {
    fn push_blob(&self, blob: &Descriptor, bytes: &[u8]) -> Result<Arrival, RegistryError> {
        let action = "uploading a blob";
        self.registry.with_retries(|| {
            if let Some(arrival) = self.try_blob(action, blob, bytes)? {
                return Ok(arrival);
            }
            let again = self.try_blob(action, blob, bytes)?;
            let problem = "takes no token, not even a new one";
            again.ok_or_else(|| RegistryError::of_answer(action, &self.url("blobs/"), problem))
        })
    }

    /// Sends a blob, unless the registry has it. `None` if the token expired; there is a new one
    /// then.
    fn try_blob(
        &self,
        what: &'static str,
        blob: &Descriptor,
        bytes: &[u8],
    ) -> Result<Option<Arrival>, RegistryError> {
        if self.has_blob(&blob.digest)? {
            return Ok(Some(Arrival::Present));
        }
        let session = self.accepted(BEGINNING, self.begin()?)?;
        let location = session.header("location").and_then(|location| session.url.join(location));
        let problem = "does not say where to upload to";
        let location =
            location.ok_or_else(|| RegistryError::of_answer(BEGINNING, &session.url, problem))?;
        let url = location.with("digest", blob.digest.as_str());
        let answer = self.call(&Call {
            headers: vec![("content-type", "application/octet-stream".to_owned())],
            body: Some(bytes),
            resend: false, // the upload session has ended after a 401
            ..Call::new(what, Method::PUT, url, LARGEST_ANSWER)
        })?;
        if answer.renewed {
            return Ok(None);
        }
        let answer = self.accepted(what, answer)?;
        check_digest("a blob", &answer, &blob.digest)?;
        Ok(Some(Arrival::Sent))
    }

    /// Whether the registry has a blob. An unclear response counts as no: the upload then gives the
    /// reason.
    fn has_blob(&self, digest: &Digest) -> Result<bool, RegistryError> {
        let action = "looking for a blob";
        let url = self.url(&format!("blobs/{digest}"));
        let answer = self.call(&Call::new(action, Method::HEAD, url, 0))?;
        match answer.status {
            200 => Ok(true),
            401 | 408 | 429 | 500..=599 => self.accepted(action, answer).map(|_| false),
            _ => Ok(false),
        }
    }

    fn begin(&self) -> Result<RegistryResponse, RegistryError> {
        let url = self.url("blobs/uploads/");
        self.call(&Call {
            body: Some(&[]),
            allow_other_host: false,
            ..Call::new(BEGINNING, Method::POST, url, LARGEST_ANSWER)
        })
    }
}

/// Checks the digest that the registry names in its response, if there is one.
pub(super) fn check_digest(
    what: &str,
    answer: &RegistryResponse,
    expected: &Digest,
) -> Result<(), RegistryError> {
    let digest = answer.header("docker-content-digest");
    digest.map_or(Ok(()), |named| compare_digests(what, expected, named.trim()))
}

pub(super) fn compare_digests(
    what: &str,
    expected: &Digest,
    found: &str,
) -> Result<(), RegistryError> {
    if found == expected.as_str() {
        return Ok(());
    }
    let digest = super::error_text::printable(found);
    Err(RegistryError::Digest { what: what.to_owned(), expected: expected.clone(), found: digest })
}
