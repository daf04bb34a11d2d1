//! Resolves tags to the digests of the manifests that they point to now. Each image is resolved
//! once, all with one login.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use laststream_module::inspect::image::pin_of_index;
use laststream_oci::image::Reference;
use laststream_oci::registry::Registry;
use laststream_oci::registry::credentials::Sources;
use laststream_policy::Resolve;

use crate::commands::exit::Exit;
use crate::commands::printer::Printer;
use crate::commands::registry_args::RegistryArgs;

/// A placeholder for the call that collects the images. It is never rendered.
const SOME_DIGEST: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// Calls `render` twice: first to collect the images that it asks for, before any registry is
/// asked.
pub(super) fn with_digests<T, E>(
    args: &RegistryArgs,
    printer: &Printer,
    render: impl Fn(Resolve<'_>) -> Result<T, E>,
) -> Result<Result<T, E>, Exit> {
    let images = RefCell::new(BTreeSet::new());
    let rendered = render(&|image| {
        images.borrow_mut().insert(image.to_owned());
        Ok(SOME_DIGEST.to_owned())
    });
    let images = images.into_inner();
    if rendered.is_err() || images.is_empty() && !args.names_login() {
        return Ok(rendered);
    }
    let sources = args.sources().map_err(|error| printer.misused(&error))?;
    one_login(&sources, &images).map_err(|problem| printer.misused(&problem))?;
    let known = RefCell::new(BTreeMap::new());
    Ok(render(&|image| {
        let mut known = known.borrow_mut();
        let digest = known.entry(image.to_owned());
        digest.or_insert_with(|| digest_of(image, args, &sources, printer)).clone()
    }))
}

/// Rejects a password if the policy names several registries, because it is for one of them only.
fn one_login(sources: &Sources, images: &BTreeSet<String>) -> Result<(), String> {
    let references = images.iter().filter_map(|image| image.parse::<Reference>().ok());
    let registries: BTreeSet<String> = references.map(|reference| reference.registry).collect();
    if sources.given.is_none() || registries.len() < 2 {
        return Ok(());
    }
    Err(format!(
        "user name and password are for one registry, but the policy names images of several: {}; \
            `docker login` to each, or write digests",
        registries.into_iter().collect::<Vec<_>>().join(", ")
    ))
}

fn digest_of(
    image: &str,
    args: &RegistryArgs,
    sources: &Sources,
    printer: &Printer,
) -> Result<String, String> {
    let ask = || -> Result<String, Box<dyn Error>> {
        let reference: Reference = image.parse()?;
        let options = args.options();
        let registry = Registry::new(&reference.registry, &options, sources, printer)?;
        let resolved = registry.resolve(&reference)?;
        if !resolved.is_index() {
            return Ok(resolved.digest.to_string());
        }
        let index = Reference { digest: Some(resolved.digest), ..reference };
        let pin = pin_of_index(&registry.manifest(&index)?.bytes)?;
        printer.warning(&format!(
            "`{image}` is an index, not a manifest: `{pin}` is pinned, its manifest for \
                linux/amd64, because Istio and Envoy Gateway compare the digest of that"
        ));
        Ok(pin)
    };
    ask().map_err(|error| format!("{error}; `--digest sha256:…` renders without asking"))
}
