//! The tags that a push of an image moves.

use laststream_base::digest::Digest;
use laststream_oci::image::{Image, Reference};
use laststream_oci::registry::Registries;

use crate::analysis::ModuleKind;
use crate::inspect;

/// A tag that points to another image before the push.
pub struct TagMove<'a> {
    pub reference: &'a Reference,
    pub from: Digest,
    /// What the tag holds, if that is not a module of the pushed kind; the error if it cannot be
    /// inspected.
    pub other: Result<Option<String>, String>,
}

/// The tags that exist and would move to this image.
///
/// # Errors
/// A registry cannot be asked.
pub fn tag_moves<'a>(
    registries: &Registries<'a>,
    image: &Image,
    kind: ModuleKind,
) -> Result<Vec<TagMove<'a>>, String> {
    let targets = registries.iter().zip(registries.digests()?);
    let moves = targets.filter_map(|((reference, registry), digest)| {
        let from = digest.filter(|digest| *digest != image.digest)?;
        let other = inspect::image(registry, reference).map(|tagged| match tagged.module {
            Some(module) if module.kind == kind => None,
            Some(module) => Some(module.kind.to_string()),
            None => Some("no module of laststream".to_owned()),
        });
        Some(TagMove { reference, from, other })
    });
    Ok(moves.collect())
}
