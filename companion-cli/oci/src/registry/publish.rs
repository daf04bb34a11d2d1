//! Publishes one image under several references, in one or more registries: first all blobs
//! everywhere, then the tags one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::credentials::Sources;
use super::error::RegistryError;
use super::{Options, Registry};
use crate::image::{Image, NotAReference, Reference};
use laststream_base::digest::Digest;
use laststream_base::progress::Progress;

/// An error, and the references that were published before it.
#[derive(Debug)]
pub struct Unpublished {
    /// The references that point to the image now.
    pub published: Vec<Reference>,
    pub problem: Box<PublishError>,
}

impl From<PublishError> for Unpublished {
    fn from(problem: PublishError) -> Self {
        Self { published: Vec::new(), problem: Box::new(problem) }
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    #[error(transparent)]
    Reference(#[from] NotAReference),
    #[error(
        "user name and password are for one registry, but the references name several: {0}; push \
            to each by itself, or `docker login`"
    )]
    SeveralRegistries(String),
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

impl PublishError {
    /// The error of a registry, if it is one.
    pub fn of_registry(&self) -> Option<&RegistryError> {
        match self {
            Self::Registry(error) => Some(error),
            Self::Reference(_) | Self::SeveralRegistries(_) => None,
        }
    }
}

/// What has changed in the registries before the error.
impl fmt::Display for Unpublished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.published.is_empty() {
            return f.write_str("nothing was published: no tag has changed");
        }
        let names: Vec<String> =
            self.published.iter().map(|reference| format!("`{reference}`")).collect();
        write!(f, "already published: {}", names.join(", "))
    }
}

/// The references of a push, with a client for each of their registries.
pub struct Registries<'a> {
    references: &'a [Reference],
    clients: BTreeMap<String, Registry<'a>>,
    progress: &'a dyn Progress,
}

impl<'a> Registries<'a> {
    /// Makes the clients, and checks everything that can be checked before anything is sent.
    pub fn of(
        references: &'a [Reference],
        options: &'a Options,
        sources: &'a Sources,
        progress: &'a dyn Progress,
    ) -> Result<Self, Unpublished> {
        Self::prepare(references, options, sources, progress).map_err(Unpublished::from)
    }

    fn prepare(
        references: &'a [Reference],
        options: &'a Options,
        sources: &'a Sources,
        progress: &'a dyn Progress,
    ) -> Result<Self, PublishError> {
        let mut clients = BTreeMap::new();
        for reference in references {
            reference.pushed_tag()?;
            clients.insert(
                reference.registry.clone(),
                Registry::new(&reference.registry, options, sources, progress)?,
            );
        }
        if clients.len() > 1 && sources.given.is_some() {
            return Err(PublishError::SeveralRegistries(
                clients.into_keys().collect::<Vec<_>>().join(", "),
            ));
        }
        Ok(Self { references, clients, progress })
    }

    /// Each reference, with the client of its registry.
    pub fn iter(&self) -> impl Iterator<Item = (&'a Reference, &Registry<'a>)> {
        self.references.iter().map(|reference| (reference, &self.clients[&reference.registry]))
    }

    /// The digests that the tags point to now; `None` for a new tag, and where the registry does
    /// not tell.
    pub fn digests(&self) -> Result<Vec<Option<Digest>>, Unpublished> {
        let digests = self.iter().map(|(reference, registry)| registry.find_before_push(reference));
        digests.collect::<Result<_, _>>().map_err(|error| PublishError::from(error).into())
    }

    /// Publishes an image under all the references.
    pub fn publish(&self, image: &Image) -> Result<(), Unpublished> {
        let mut published = Vec::new();
        self.send(image, &mut published)
            .map_err(|problem| Unpublished { published, problem: Box::new(problem) })
    }

    fn send(&self, image: &Image, published: &mut Vec<Reference>) -> Result<(), PublishError> {
        self.send_blobs(image)?;
        for (reference, registry) in self.iter() {
            registry.push_manifest(&reference.repository, reference.pushed_tag()?, image)?;
            self.progress.finished(&format!("{reference} is {}", image.digest));
            published.push(reference.clone());
        }
        Ok(())
    }

    fn send_blobs(&self, image: &Image) -> Result<(), PublishError> {
        let mut done = BTreeSet::new();
        for (reference, registry) in self.iter() {
            let name = reference.name();
            if !done.insert(name.clone()) {
                continue;
            }
            self.progress.started(&format!("pushing to {name}"));
            let arrivals = registry.push_blobs(&reference.repository, image)?;
            for ((blob, _), arrival) in image.blobs().iter().zip(arrivals) {
                let line = format!("{} ({} bytes): {arrival}", blob.digest, blob.size);
                self.progress.finished(&line);
            }
        }
        Ok(())
    }
}
