//! Publishes one image under several references, in one or more registries: first all blobs
//! everywhere, then the tags one by one.

use std::collections::{BTreeMap, BTreeSet};

use super::credentials::Sources;
use super::error::RegistryError;
use super::{Options, Registry};
use crate::image::{Image, Reference};
use laststream_base::digest::Digest;
use laststream_base::progress::Progress;

/// The references of a push, with a client for each of their registries.
pub struct Registries<'a> {
    references: &'a [Reference],
    clients: BTreeMap<String, Registry<'a>>,
    progress: &'a dyn Progress,
}

impl<'a> Registries<'a> {
    /// Makes the clients. Nothing is sent yet.
    pub fn of(
        references: &'a [Reference],
        options: &'a Options,
        sources: &'a Sources,
        progress: &'a dyn Progress,
    ) -> Result<Self, String> {
        let client = |Reference { registry, .. }: &Reference| {
            Ok((registry.clone(), Registry::new(registry, options, sources, progress)?))
        };
        let clients = references.iter().map(client).collect::<Result<_, _>>();
        let clients = clients.map_err(|error| unpublished(&error, &[]))?;
        Ok(Self { references, clients, progress })
    }

    /// Each reference, with the client of its registry.
    pub fn iter(&self) -> impl Iterator<Item = (&'a Reference, &Registry<'a>)> {
        self.references.iter().map(|reference| (reference, &self.clients[&reference.registry]))
    }

    /// The digests that the tags point to now; `None` for a new tag, and where the registry does
    /// not tell.
    pub fn digests(&self) -> Result<Vec<Option<Digest>>, String> {
        let digests = self.iter().map(|(reference, registry)| registry.find_before_push(reference));
        digests.collect::<Result<_, _>>().map_err(|error| unpublished(&error, &[]))
    }

    /// Publishes an image under all the references, which must have tags.
    pub fn publish(&self, image: &Image) -> Result<(), String> {
        let mut published = Vec::new();
        self.send(image, &mut published).map_err(|error| unpublished(&error, &published))
    }

    fn send(&self, image: &Image, published: &mut Vec<&'a Reference>) -> Result<(), RegistryError> {
        self.send_blobs(image)?;
        for (reference, registry) in self.iter() {
            registry.push_manifest(&reference.repository, reference.version(), image)?;
            self.progress.finished(&format!("{reference} is {}", image.digest));
            published.push(reference);
        }
        Ok(())
    }

    fn send_blobs(&self, image: &Image) -> Result<(), RegistryError> {
        let mut digests = BTreeSet::new();
        for (reference, registry) in self.iter() {
            let name = reference.name();
            if !digests.insert(name.clone()) {
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

/// The error, and what has changed in the registries before it.
fn unpublished(error: &RegistryError, published: &[&Reference]) -> String {
    let names: Vec<String> = published.iter().map(|reference| format!("`{reference}`")).collect();
    let error = error.with_option();
    match names.as_slice() {
        [] => format!("{error}\nnothing was published: no tag has changed"),
        names => format!("{error}\nalready published: {}", names.join(", ")),
    }
}
