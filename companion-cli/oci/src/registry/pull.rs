//! Finds and pulls what references name, and checks the digests.

use http::Method;

use super::auth::Scope;
use super::error::RegistryError;
use super::push::{check_digest, compare_digests};
use super::{Call, Registry, Repository};
use crate::image::{DOCKER_LIST, DOCKER_MANIFEST, Descriptor, INDEX, MANIFEST, Reference};
use laststream_base::digest::Digest;

/// The limit for a manifest in bytes. The protocol lets registries refuse larger ones.
const LARGEST_MANIFEST: u64 = 4 << 20;
const FINDING: &str = "looking for the image";
const FETCHING: &str = "fetching the manifest";

/// A manifest, as the registry sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedManifest {
    /// The bytes, unchanged.
    pub bytes: Vec<u8>,
    /// Their digest.
    pub digest: Digest,
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

    /// The manifest that a reference points to. Its digest is checked.
    pub fn manifest(&self, reference: &Reference) -> Result<FetchedManifest, RegistryError> {
        let repository = self.to_pull(reference);
        let call = repository.manifest_call(Method::GET, FETCHING, reference);
        self.with_retries(|| {
            let answer = repository.accepted(FETCHING, repository.call(&call)?)?;
            let digest = Digest::of(&answer.body);
            let subject = format!("the manifest of `{reference}`");
            // An image that is asked for by its digest must have it.
            let expected = reference.digest.as_ref().unwrap_or(&digest);
            compare_digests(&subject, expected, digest.as_str())?;
            check_digest(&subject, &answer, &digest)?;
            Ok(FetchedManifest { bytes: answer.body, digest })
        })
    }

    /// The bytes of a blob, at most `largest`.
    pub fn blob(
        &self,
        reference: &Reference,
        blob: &Descriptor,
        largest: u64,
    ) -> Result<Vec<u8>, RegistryError> {
        let action = "fetching a blob";
        let repository = self.to_pull(reference);
        let url = repository.url(&format!("blobs/{}", blob.digest));
        if blob.size > largest {
            let problem = format!("has {} bytes; more than {largest} are not fetched", blob.size);
            return Err(RegistryError::of_answer(action, &url, problem));
        }
        let call = Call::new(action, Method::GET, url, blob.size + 1);
        let answer = self.with_retries(|| repository.accepted(action, repository.call(&call)?))?;
        let digest = Digest::of(&answer.body);
        compare_digests(&format!("a blob of `{reference}`"), &blob.digest, digest.as_str())?;
        Ok(answer.body)
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
