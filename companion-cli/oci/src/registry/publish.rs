//! Publishes one image under several references, in one or more registries: first all blobs
//! everywhere, then the tags one by one.

use std::collections::BTreeMap;
use std::fmt;

use super::credentials::Sources;
use super::error::RegistryError;
use super::{Options, Registry};
use crate::image::{Image, NotAReference, Reference};
use laststream_base::progress::Progress;

/// An error, and the references that were published before it.
#[derive(Debug)]
pub struct Unpublished {
    /// The references that point to the image now.
    pub published: Vec<Reference>,
    /// The error.
    pub problem: Box<PublishError>,
}

/// Errors of publishing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// A reference that cannot be pushed to.
    #[error(transparent)]
    Reference(#[from] NotAReference),
    /// User name and password are for one registry, but the references name several.
    #[error(
        "user name and password are for one registry, but the references name several: {0}; push \
            to each by itself, or `docker login`"
    )]
    SeveralRegistries(String),
    /// A request to a registry failed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

impl PublishError {
    /// Whether the arguments are wrong, and nothing was done.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::Registry(_))
    }
}

impl fmt::Display for Unpublished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.problem)?;
        if self.problem.is_usage() {
            return Ok(());
        }
        if self.published.is_empty() {
            return f.write_str("\nnothing was published: no tag has changed");
        }
        let names: Vec<String> =
            self.published.iter().map(|reference| format!("`{reference}`")).collect();
        write!(f, "\nalready published: {}", names.join(", "))
    }
}

/// Publishes an image under all these references. `mount_from` is a repository that may have its
/// blobs already.
///
/// # Errors
/// Names the problem, and the references that were already published.
pub fn publish(
    references: &[Reference],
    image: &Image,
    mount_from: Option<&str>,
    options: &Options,
    sources: &Sources,
    progress: &dyn Progress,
) -> Result<(), Unpublished> {
    let mut published = Vec::new();
    let result = prepare(references, options, sources, progress).and_then(|registries| {
        send_blobs(references, image, mount_from, &registries, progress)?;
        for reference in references {
            let tag = reference.pushed_tag()?;
            registries[&reference.registry].push_manifest(&reference.repository, tag, image)?;
            progress.finished(&format!("{reference} is {}", image.digest));
            published.push(reference.clone());
        }
        Ok(())
    });
    result.map_err(|problem| Unpublished { published, problem: Box::new(problem) })
}

type Registries<'a> = BTreeMap<String, Registry<'a>>;

/// Makes the clients, and checks everything that can be checked before anything is sent.
fn prepare<'a>(
    references: &[Reference],
    options: &'a Options,
    sources: &'a Sources,
    progress: &'a dyn Progress,
) -> Result<Registries<'a>, PublishError> {
    let mut registries = BTreeMap::new();
    for reference in references {
        reference.pushed_tag()?;
        registries.insert(
            reference.registry.clone(),
            Registry::new(&reference.registry, options, sources, progress)?,
        );
    }
    if registries.len() > 1 && sources.given.is_some() {
        return Err(PublishError::SeveralRegistries(
            registries.into_keys().collect::<Vec<_>>().join(", "),
        ));
    }
    Ok(registries)
}

fn send_blobs(
    references: &[Reference],
    image: &Image,
    mount_from: Option<&str>,
    registries: &Registries<'_>,
    progress: &dyn Progress,
) -> Result<(), PublishError> {
    let mut done: Vec<&Reference> = Vec::new();
    for reference in references {
        let name = reference.name();
        if done.iter().any(|other| other.name() == name) {
            continue;
        }
        let sibling = done
            .iter()
            .find(|other| other.registry == reference.registry)
            .map(|other| other.repository.as_str());
        let from: Vec<String> = sibling.or(mount_from).map(str::to_owned).into_iter().collect();
        progress.started(&format!("pushing to {name}"));
        let arrivals =
            registries[&reference.registry].push_blobs(&reference.repository, image, &from)?;
        for ((blob, _), arrival) in image.blobs().iter().zip(arrivals) {
            progress.finished(&format!("{} ({} bytes): {arrival}", blob.digest, blob.size));
        }
        done.push(reference);
    }
    Ok(())
}
