//! Finds and pulls what references name, and checks the digests.

use http::Method;

use super::auth::Scope;
use super::error::RegistryError;
use super::push::check_digest;
use super::response::RegistryResponse;
use super::{Call, Registry, Repository};
use crate::image::{DOCKER_LIST, DOCKER_MANIFEST, Descriptor, INDEX, MANIFEST, Reference};
use laststream_base::digest::Digest;

/// The limit for a manifest in bytes. The protocol lets registries refuse larger ones.
const LARGEST_MANIFEST: u64 = 4 << 20;
const FINDING: &str = "looking for the image";
const FETCHING: &str = "fetching the manifest";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedManifest {
    /// The bytes, unchanged.
    pub bytes: Vec<u8>,
    pub digest: Digest,
    /// The media type of the manifest, as the registry names it.
    pub media_type: Option<String>,
}

impl Registry<'_> {
    /// The digest of the manifest that a reference points to, before a push to it. `None` if there
    /// is none, or if the registry does not tell.
    pub fn find_before_push(&self, reference: &Reference) -> Result<Option<Digest>, RegistryError> {
        let repository = self.to_push(&reference.repository);
        let call = repository.manifest_call(Method::HEAD, FINDING, reference);
        let answer = self.with_retries(|| {
            let answer = repository.call(&call)?;
            match answer.status {
                401 | 408 | 429 | 500..=599 => repository.accepted(FINDING, answer),
                _ => Ok(answer),
            }
        })?;
        let digest = answer.header("docker-content-digest").filter(|_| answer.is_success());
        let digest = digest.and_then(|digest| digest.trim().parse().ok());
        if digest.is_some() || answer.status == 404 {
            return Ok(digest);
        }
        // Some registries do not answer HEAD, or without the digest.
        Ok(self.manifest(reference).ok().map(|found| found.digest))
    }

    pub fn manifest(&self, reference: &Reference) -> Result<FetchedManifest, RegistryError> {
        let repository = self.to_pull(reference);
        let call = repository.manifest_call(Method::GET, FETCHING, reference);
        self.with_retries(|| {
            let answer = repository.accepted(FETCHING, repository.call(&call)?)?;
            let digest = Digest::of(&answer.body);
            check(reference, &digest)?;
            check_digest(&format!("the manifest of `{reference}`"), &answer, &digest)?;
            Ok(FetchedManifest { media_type: media_type(&answer), bytes: answer.body, digest })
        })
    }

    /// The bytes of a blob, at most `largest`.
    pub fn blob(
        &self,
        reference: &Reference,
        blob: &Descriptor,
        largest: u64,
    ) -> Result<Vec<u8>, RegistryError> {
        let what = "fetching a blob";
        let repository = self.to_pull(reference);
        let url = repository.url(&format!("blobs/{}", blob.digest));
        if blob.size > largest {
            let problem = format!("has {} bytes; more than {largest} are not fetched", blob.size);
            return Err(RegistryError::Answer { what, url: url.to_string(), problem });
        }
        let call = Call::new(what, Method::GET, url, blob.size + 1);
        let answer = self.with_retries(|| repository.accepted(what, repository.call(&call)?))?;
        let digest = Digest::of(&answer.body);
        if digest == blob.digest {
            return Ok(answer.body);
        }
        Err(RegistryError::Digest {
            what: format!("a blob of `{reference}`"),
            expected: blob.digest.clone(),
            found: digest.to_string(),
        })
    }

    fn to_pull<'a>(&'a self, reference: &'a Reference) -> Repository<'a> {
        Repository {
            registry: self,
            name: &reference.repository,
            scope: Scope::pull(&reference.repository),
        }
    }
}

impl Repository<'_> {
    fn manifest_call(
        &self,
        method: Method,
        what: &'static str,
        reference: &Reference,
    ) -> Call<'static> {
        let accept = [MANIFEST, DOCKER_MANIFEST, INDEX, DOCKER_LIST].join(", ");
        let url = self.url(&format!("manifests/{}", reference.version()));
        Call { headers: vec![("accept", accept)], ..Call::new(what, method, url, LARGEST_MANIFEST) }
    }
}

fn media_type(answer: &RegistryResponse) -> Option<String> {
    answer
        .header("content-type")
        .map(|value| value.split(';').next().unwrap_or_default().trim().to_owned())
}

/// Checks that a manifest that was requested by digest has that digest.
fn check(reference: &Reference, found: &Digest) -> Result<(), RegistryError> {
    match &reference.digest {
        Some(expected) if expected != found => {
            let what = format!("the manifest of `{reference}`");
            Err(RegistryError::Digest {
                what,
                expected: expected.clone(),
                found: found.to_string(),
            })
        }
        _ => Ok(()),
    }
}
