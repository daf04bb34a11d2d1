//! Asks registries for the images that a policy names by tag: for the digests that the tags point
//! to now, and whether the wanted modules are in them. All are asked for with one login.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::time::Duration;

use laststream_base::env_vars::{self, LASTSTREAM_OFFLINE};
use laststream_module::analysis::ModuleKind;
use laststream_module::inspect::{self, Pin};
use laststream_oci::image::Reference;
use laststream_oci::registry::credentials::Sources;
use laststream_oci::registry::{Options, Registry};
use laststream_policy::file::Delivery;
use laststream_policy::{Policy, Resolve, Wanted};

use crate::args::registry::RegistryArgs;
use crate::commands::{Failure, Printer, misused};

/// A placeholder, which is never printed.
const SOME_DIGEST: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
/// How long to wait for an answer that rendering does not need.
const BRIEFLY: Duration = Duration::from_secs(3);

/// Answers for a registry where only the form of what is rendered counts.
pub(super) fn some_digest(_: &str, _: Wanted) -> Result<String, String> {
    Ok(SOME_DIGEST.to_owned())
}

/// The images of one policy.
pub(super) struct PolicyImages<'a> {
    args: &'a RegistryArgs,
    printer: &'a Printer,
    sources: OnceCell<Sources>,
    /// Whether kubelet mounts the images. It takes any layout, and a proxy does not.
    is_mounted: bool,
    /// Whether Istio's agents fetch them.
    is_for_agents: bool,
}

impl<'a> PolicyImages<'a> {
    pub(super) fn new(args: &'a RegistryArgs, policy: &Policy, printer: &'a Printer) -> Self {
        let is_mounted = policy.delivery == Delivery::ImageVolume;
        let is_for_agents = policy.delivery == Delivery::Proxy && policy.placement.is_istio();
        Self { args, printer, sources: OnceCell::new(), is_mounted, is_for_agents }
    }

    /// Calls `render` twice: first to collect the images that it asks for, before any registry is
    /// asked. Each image is then asked for once.
    pub(super) fn with_digests<T, E>(
        &self,
        render: impl Fn(Resolve<'_>) -> Result<T, E>,
    ) -> Result<Result<T, E>, Failure> {
        let images = RefCell::new(BTreeSet::new());
        let rendered = render(&|image, wanted| {
            images.borrow_mut().insert(image.to_owned());
            some_digest(image, wanted)
        });
        let images = images.into_inner();
        if rendered.is_err() || images.is_empty() && !self.args.names_login() {
            return Ok(rendered);
        }
        let sources = self.sources()?;
        let references: Vec<Reference> =
            images.iter().filter_map(|image| image.parse().ok()).collect();
        sources.check_registries(&references).map_err(misused)?;
        let options = self.args.options();
        let cache = RefCell::new(BTreeMap::new());
        Ok(render(&|image, wanted| {
            let ask = || self.digest_of(image, wanted, &options, sources);
            cache.borrow_mut().entry((image.to_owned(), wanted)).or_insert_with(ask).clone()
        }))
    }

    /// Compares each tag with the digest beside it, which alone is used. It asks once and briefly,
    /// because rendering does not need the answer.
    pub(super) fn compare_unused_tags(
        &self,
        policy: &Policy,
        is_rendered: impl Fn(&str) -> bool,
    ) -> Result<(), Failure> {
        let mut options = self.args.options();
        options.retry.further = 0;
        let limits = &mut options.limits;
        (limits.connect, limits.silence, limits.request) = (BRIEFLY, BRIEFLY, BRIEFLY);
        let offline = env_vars::is_on(LASTSTREAM_OFFLINE, &env_vars::of_process);
        for (image, wanted, digest) in policy.unused_tags() {
            let hex = digest.trim_start_matches("sha256:");
            if !is_rendered(hex) {
                continue;
            }
            let result = match offline {
                true => Err("is not asked for: LASTSTREAM_OFFLINE is set".to_owned()),
                false => self.find(&image, wanted, &options, self.sources()?),
            };
            match result {
                Ok(Pin { digest: now, difference: None, .. }) if now.hex() == hex => {}
                Ok(Pin { digest: now, difference: Some(difference), .. }) if now.hex() == hex => {
                    return Err(format!("`{image}` {difference}").into());
                }
                Ok(Pin { digest: now, .. }) => self.printer.warning(&format!(
                    "`{image}` is `{now}` now, and `digest` is `{digest}`: only the digest is \
                        used; correct it, or take it out"
                )),
                Err(why) => {
                    let why = why.lines().next().unwrap_or_default();
                    self.printer.status_line(&format!("only `digest` is used: `{image}` {why}"));
                }
            }
        }
        Ok(())
    }

    fn sources(&self) -> Result<&Sources, Failure> {
        if let Some(sources) = self.sources.get() {
            return Ok(sources);
        }
        let sources = self.args.sources()?;
        Ok(self.sources.get_or_init(|| sources))
    }

    fn digest_of(
        &self,
        image: &str,
        wanted: Wanted,
        options: &Options,
        sources: &Sources,
    ) -> Result<String, String> {
        let problem = |problem: String| {
            format!("`{image}` {problem}; `--digest sha256:…` renders without asking the registry")
        };
        let remote = self.find(image, wanted, options, sources).map_err(problem)?;
        remote
            .difference
            .map_or(Ok(remote.digest.to_string()), |difference| Err(problem(difference)))
    }

    /// Errors are the end of a sentence about the image.
    fn find(
        &self,
        image: &str,
        wanted: Wanted,
        options: &Options,
        sources: &Sources,
    ) -> Result<Pin, String> {
        let inspection = || -> Result<_, Box<dyn Error>> {
            let reference: Reference = image.parse()?;
            let registry = Registry::new(&reference.registry, options, sources, self.printer)?;
            let inspection = inspect::image(&registry, &reference)?;
            if self.is_for_agents
                && let Some(realm) = registry.realm_that_istio_refuses()
            {
                self.printer.warning(&format!(
                    "from 1.30 on Istio's agent fetches nothing from `{}`, whose challenge has the \
                        realm `{realm}`: it takes public http(s) addresses only; change the realm \
                        in the registry, or use `delivery: image_volume`",
                    reference.registry
                ));
            }
            Ok(inspection)
        };
        let inspection = inspection().map_err(|error| format!("cannot be inspected: {error}"))?;
        let kind = match wanted {
            Wanted::Module => ModuleKind::Module,
            Wanted::FrameFilter => ModuleKind::FrameFilter,
        };
        let pin = inspection.pin(kind, self.is_mounted)?;
        if pin.is_of_index {
            self.printer.warning(&format!(
                "`{image}` is an index, not a manifest: `{}` is pinned, its manifest for \
                    linux/amd64, because Istio and Envoy Gateway compare the digest of that",
                pin.digest
            ));
        }
        Ok(pin)
    }
}
