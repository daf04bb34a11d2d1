//! The policy file: one YAML text from which everything is rendered. Text → [`file::File`] (its
//! shape) → [`Policy`] (checked).
//!
//! The module's configuration is checked by the module's own types, so the module never rejects a
//! rendered configuration.

#![allow(missing_docs, reason = "a comment says why: the names of an internal crate say what")]

mod check;
mod error;
pub mod file;
pub mod module_json;
mod profile;
mod shape;
mod sizing;
mod source;
pub mod warnings;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::Value;

pub use error::{PolicyError, PolicyProblem};
use file::{Begin, Delivery, Engine, FailurePolicy, File, Finish, LongLived, Placement};
use laststream_base::versions::Release;
use laststream_base::yaml::tree::{MOST_NODES, Tree};
use laststream_filter::config::wire::Ports;
pub use sizing::{ENVOY_DRAIN, ISTIO_DRAIN};
pub use sizing::{KUBELET, Sizing, drain_sizing};
pub use source::{FRAMES_FOLDER, MODULE_FOLDER, ModuleLocation, Resolve, Wanted};

/// A checked policy: what is written, and what follows from it.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The policy as it is written. Fields of the same names beside it have the defaults.
    pub file: File,
    pub name: String,
    pub namespace: Option<String>,
    pub istio: Option<Release>,
    pub placement: Placement,
    pub delivery: Delivery,
    pub failure_policy: FailurePolicy,
    /// `count` of the module's configuration, with the additions for `end`.
    pub count: Option<Value>,
    pub forwarded_proto: Option<ForwardedProto>,
    pub engine: Engine,
    /// The gate's port, if there is a gate.
    pub gate_port: Option<u16>,
    pub begin: Begin,
    pub finish: Finish,
    /// Whether long-lived streams hold the drain.
    pub long_lived: LongLived,
    pub sizing: Sizing,
    /// The fields that the profile gave, with their values.
    pub given: Vec<String>,
    pub warnings: Vec<String>,
    /// Whether the gate is left out because `--module` is not an image for `delivery`.
    pub gate_dropped: bool,
}

/// `forwarded_proto` of the policy, with the facts that rendering needs.
#[derive(Debug, Clone)]
pub struct ForwardedProto {
    /// The configuration for the module, without `original_header` if that was `x-forwarded-proto`.
    pub json: Value,
    /// The header that an early mutation saves `x-forwarded-proto` in; `None` where no source
    /// reads it.
    pub saved_in: Option<String>,
    /// Whether the early mutation removes `x-forwarded-proto`, or overwrites it with http at a
    /// sidecar. Envoy writes the connection's scheme in place of a removed header. That value, or
    /// http, remains when the module fails. False if the policy has `keep`.
    pub forgets: bool,
    /// The peer information that a filter writes for the module; `None` if no address range is
    /// trusted.
    pub peer_info: Option<PeerInfo>,
    pub peers: Vec<String>,
    /// The ports that decide the scheme, if its only source is the PROXY protocol header.
    pub destination_ports: Option<Ports>,
}

/// A value of filter state: the direct peer's address, and values that the module need not look up
/// in the headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerInfo {
    pub key: String,
    /// Whether the connection's local addresses follow the peer's address.
    pub addresses: bool,
    /// Headers, in the order that the module expects; an empty name for a header that the module
    /// does not read. `None` if the module must read other headers.
    pub headers: Option<[String; 3]>,
}

/// Values of the command line in place of the file's.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// Replaces `module`. The file's `digest` is then ignored, and so is its `delivery` unless this
    /// is an image.
    pub module: Option<String>,
    /// Replaces `digest`.
    pub digest: Option<String>,
    /// Replaces `namespace`.
    pub namespace: Option<String>,
    /// Replaces `name`.
    pub name: Option<String>,
    /// Replaces `istio`.
    pub istio: Option<String>,
    /// Replaces `engine`.
    pub engine: Option<Engine>,
}

/// The largest policy in bytes: more than any policy has, less than many files that a mistaken name
/// leads to.
const LONGEST: usize = 1 << 20;

impl Policy {
    /// Reads and checks a policy. An empty text is a policy with all defaults.
    pub fn read(text: &[u8], overrides: &Overrides) -> Result<Self, PolicyError> {
        let text = text_of(text).map_err(|problem| PolicyError(vec![problem]))?;
        let file = shape::shape(text).map_err(|problem| PolicyError(vec![problem]))?;
        let is_volume = file.delivery == Some(Delivery::ImageVolume);
        let wants_gate = file.gate.enabled != Some(false);
        let mut file = apply(file, overrides);
        let delivery_dropped = is_volume && file.delivery.is_none();
        let given = profile::fill(&mut file);
        let checked = check::check(file).map(|policy| Self {
            gate_dropped: delivery_dropped && wants_gate && policy.gate_port.is_none(),
            given,
            ..policy
        });
        checked.map_err(|problems| {
            let placed = |problem: PolicyProblem| PolicyProblem {
                place: place(text, &problem, overrides),
                ..problem
            };
            PolicyError(problems.into_iter().map(placed).collect())
        })
    }

    /// The location of the module, pinned unless it is a file in the proxy. Asks the registry only
    /// if no digest is given.
    pub fn source(&self, resolve: Resolve<'_>) -> Result<ModuleLocation, PolicyProblem> {
        let Some(module) = &self.file.module else {
            return Err(PolicyProblem::new(
                "module",
                "is required: `oci://HOST/REPOSITORY:TAG`, `https://…/plugin.wasm`, or a file that \
                    the proxy can read",
            ));
        };
        self.located(module, self.file.digest.as_deref(), Wanted::Module, resolve)
    }

    /// The location of the frame filter's module, if the policy has WebSockets.
    pub fn frames_source(
        &self,
        resolve: Resolve<'_>,
    ) -> Result<Option<ModuleLocation>, PolicyProblem> {
        let Some(websockets) = &self.file.websockets else { return Ok(None) };
        let digest = websockets.digest.as_deref();
        self.located(&websockets.module, digest, Wanted::FrameFilter, resolve).map(Some).map_err(
            |problem| PolicyProblem::new(format!("websockets.{}", problem.path), problem.message),
        )
    }

    fn located(
        &self,
        module: &str,
        digest: Option<&str>,
        wanted: Wanted,
        resolve: Resolve<'_>,
    ) -> Result<ModuleLocation, PolicyProblem> {
        let location = source::read(module, digest, wanted, resolve)?.reachable(&self.placement)?;
        Ok(match (self.delivery, wanted) {
            (Delivery::Proxy, _) => location,
            (Delivery::ImageVolume, Wanted::Module) => location.mounted(MODULE_FOLDER),
            (Delivery::ImageVolume, Wanted::FrameFilter) => location.mounted(FRAMES_FOLDER),
        })
    }

    /// Images with a tag that is not used, because the policy has a digest beside it; and that
    /// digest.
    pub fn unused_tags(&self) -> Vec<(String, Wanted, String)> {
        let File { module, digest, websockets, .. } = &self.file;
        let module = module.as_deref().map(|module| (module, digest, Wanted::Module));
        let frames = websockets.as_ref();
        let frames = frames.map(|of| (of.module.as_str(), &of.digest, Wanted::FrameFilter));
        let of = |(module, digest, wanted): (&str, &Option<String>, Wanted)| {
            let (image, digest) = source::unused_tag(module, digest.as_deref())?;
            Some((image, wanted, digest))
        };
        module.into_iter().chain(frames).filter_map(of).collect()
    }

    /// The JSON Schema (draft 2020-12) of the policy file.
    pub fn schema() -> Value {
        let settings =
            SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<File>().to_value();
        schema["title"] = "laststream policy".into();
        schema
    }
}

fn text_of(text: &[u8]) -> Result<&str, PolicyProblem> {
    if text.len() > LONGEST {
        return Err(PolicyProblem::new(
            "",
            format!("is no policy: {} bytes, and {LONGEST} are more than enough", text.len()),
        ));
    }
    std::str::from_utf8(text).map_err(|error| {
        PolicyProblem::new("", format!("is not UTF-8 from byte {} on", error.valid_up_to()))
    })
}

/// Whether a text has comments at most, as a file that was truncated before it is written again.
pub fn is_empty(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .all(|line| line.is_empty() || line.starts_with(b"#") || line == b"---")
}

fn apply(mut file: File, overrides: &Overrides) -> File {
    let Overrides { module, digest, namespace, name, istio, engine } = overrides.clone();
    if let Some(module) = &module {
        file.digest = None;
        file.delivery = file.delivery.filter(|_| module.starts_with("oci://"));
    }
    File {
        module: module.or(file.module),
        digest: digest.or(file.digest),
        namespace: namespace.or(file.namespace),
        name: name.or(file.name),
        istio: istio.or(file.istio),
        engine: engine.or(file.engine),
        ..file
    }
}

/// The position of a problem in the file; none if the value is from the command line.
fn place(text: &str, problem: &PolicyProblem, overrides: &Overrides) -> Option<(u64, u64)> {
    let from_flag = match problem.path.as_str() {
        "module" => overrides.module.is_some(),
        "digest" => overrides.digest.is_some(),
        "namespace" => overrides.namespace.is_some(),
        "name" => overrides.name.is_some(),
        "istio" => overrides.istio.is_some(),
        _ => false,
    };
    if from_flag {
        return None;
    }
    Tree::read(text, MOST_NODES)
        .place_of(&problem.path)
        .map(|place| (place.line.into(), place.column.into()))
}

#[cfg(test)]
mod tests;
