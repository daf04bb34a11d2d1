//! The policy file: one YAML text from which everything is rendered. Text → [`file::File`] (its
//! shape) → [`Policy`] (checked).
//!
//! The module's configuration is checked by the module's own types, so the module never rejects
//! what is rendered here.

mod check;
mod error;
pub mod file;
pub(crate) mod module_json;
mod sizing;
mod source;
pub(crate) mod warnings;
mod watching;

use std::collections::BTreeMap;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::time_span::TimeSpan;
use crate::yaml::tree::{MOST_NODES, Tree};
pub use error::{PolicyError, PolicyProblem};
use file::{
    App, Begin, Delivery, Engine, FailurePolicy, File, Finish, ForwardedFor, GateSecret, LongLived,
    Notify, Placement, Retries, Websockets,
};
pub(crate) use sizing::{ENVOY_DRAIN, ISTIO_DRAIN, Usual};
pub use sizing::{KUBELET, LATE, Sizing, drain_sizing};
pub use source::{FRAMES_FOLDER, MODULE_FOLDER, ModuleLocation, Resolve};

/// A valid policy.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The resources' name.
    pub name: String,
    /// Their namespace, where there is one.
    pub namespace: Option<String>,
    /// Their labels.
    pub labels: BTreeMap<String, String>,
    /// Which proxies; defaults filled in.
    pub placement: Placement,
    /// The way of the module's image into the proxy.
    pub delivery: Delivery,
    /// The pull secret's name.
    pub pull_secret: Option<String>,
    /// An image with laststream's static program in it.
    pub program_image: Option<String>,
    /// What happens to requests without the module.
    pub failure_policy: FailurePolicy,
    /// `count` of the module's configuration, as it was written.
    pub count: Option<Value>,
    /// `forwarded_proto` of the module's configuration, as it was written.
    pub forwarded_proto: Option<ForwardedProto>,
    /// The engine that restores it.
    pub engine: Engine,
    /// The header from which Envoy takes the client's address.
    pub forwarded_for: Option<ForwardedFor>,
    /// The gate's port, if there is a gate.
    pub gate_port: Option<u16>,
    /// Where the proxy has the gate's secret from.
    pub gate_secret: Option<GateSecret>,
    /// Names under which the gate may be asked.
    pub gate_hosts: Vec<String>,
    /// The call that tells the app of the drain.
    pub notify: Option<Notify>,
    /// Envoy's drain time, if the gate watches changes of the configuration.
    pub config_drain_time: Option<TimeSpan>,
    /// How the drain begins.
    pub begin: Begin,
    /// How it ends.
    pub finish: Finish,
    /// What long-lived streams do to it.
    pub long_lived: LongLived,
    /// The age that makes a stream long-lived.
    pub long_lived_after: Option<TimeSpan>,
    /// Streams that the gate ends.
    pub end: Option<file::End>,
    /// The app that it also waits for.
    pub app: Option<App>,
    /// How long everything takes.
    pub sizing: Sizing,
    /// Istio's own setting is kept.
    pub exit_on_zero: bool,
    /// Where WebSockets end with a close frame.
    pub websockets: Option<Websockets>,
    /// Retries at the caller's side.
    pub retries: Option<Retries>,
    /// A Job beside a sidecar.
    pub job: Option<file::Job>,
    /// Rules, alerts and a dashboard.
    pub monitoring: Option<file::Monitoring>,
    /// Scaling by streams in flight.
    pub scaling: Option<file::Scaling>,
    /// Warnings.
    pub warnings: Vec<String>,
    /// Whether the gate is left out because `--module` is not an image for `delivery`.
    pub gate_dropped: bool,
    module: Option<String>,
    digest: Option<String>,
}

/// What rendering must know of `forwarded_proto` besides its text.
#[derive(Debug, Clone)]
pub struct ForwardedProto {
    /// The text.
    pub json: Value,
    /// The header that an early mutation saves `x-forwarded-proto` in; `None` where no source
    /// reads it.
    pub saved_in: Option<String>,
    /// Whether the early mutation removes `x-forwarded-proto`, or overwrites it with http at a
    /// sidecar. Envoy writes the connection's scheme in place of a removed one. That is what is
    /// left when the module fails. `keep` forbids it.
    pub forgets: bool,
    /// What the module reads from filter state; `None` where no address is trusted.
    pub peer_info: Option<PeerInfo>,
    /// The address ranges that are trusted.
    pub peers: Vec<String>,
    /// The ports that tell the scheme, where the PROXY protocol header does and no other header.
    pub destination_ports: Option<DestinationPorts>,
}

/// Destination ports in PROXY protocol headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationPorts {
    /// Those of https.
    pub https: Vec<u16>,
    /// Those of http.
    pub http: Vec<u16>,
}

/// A value of filter state: the direct peer's address, and what else saves the module a look at the
/// headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerInfo {
    /// Its key.
    pub key: String,
    /// Whether the local addresses of the connection stand behind the peer's.
    pub addresses: bool,
    /// Headers, in the order that the module expects; an empty name for what it does not look at.
    /// `None` where it must look at others.
    pub headers: Option<[String; 3]>,
}

/// Values of the command line in place of the file's.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// Instead of `module`; the file's `digest` does not count then, and neither does its
    /// `delivery` unless this is an image.
    pub module: Option<String>,
    /// Instead of `digest`.
    pub digest: Option<String>,
    /// Instead of `namespace`.
    pub namespace: Option<String>,
    /// Instead of `name`.
    pub name: Option<String>,
    /// Instead of `engine`.
    pub engine: Option<Engine>,
}

/// Longer than any policy; shorter than what a mistaken file name may lead to.
const LONGEST: usize = 1 << 20;

impl Policy {
    /// Reads and checks a policy. An empty text is a policy with all defaults.
    ///
    /// # Errors
    /// The first thing that is wrong with its shape; or everything that is wrong with its values.
    pub fn read(text: &[u8], overrides: &Overrides) -> Result<Self, PolicyError> {
        let text = text_of(text).map_err(|problem| PolicyError(vec![problem]))?;
        let file = shape(text).map_err(|problem| PolicyError(vec![problem]))?;
        let is_volume = file.delivery == Some(Delivery::ImageVolume);
        let wants_gate = file.gate.enabled != Some(false);
        let file = apply(file, overrides);
        let delivery_dropped = is_volume && file.delivery.is_none();
        let checked = check::check(&file).map(|policy| Self {
            gate_dropped: delivery_dropped && wants_gate && policy.gate_port.is_none(),
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

    /// Where the module comes from, pinned. Asks the registry only where no digest was given.
    ///
    /// # Errors
    /// No module, one that makes no sense, or no digest to be had.
    pub fn source(&self, resolve: Resolve<'_>) -> Result<ModuleLocation, PolicyProblem> {
        let Some(module) = &self.module else {
            return Err(PolicyProblem::new(
                "module",
                "is required: `oci://HOST/REPOSITORY:TAG`, `https://…/plugin.wasm`, or a file that \
                    the proxy can read",
            ));
        };
        source::read(module, self.digest.as_deref(), resolve)
            .and_then(|source| source.reachable(&self.placement))
            .map(|source| match self.delivery {
                Delivery::Proxy => source,
                Delivery::ImageVolume => source.mounted(MODULE_FOLDER),
            })
            .map_err(|(field, message)| PolicyProblem::new(field, message))
    }

    /// Where the module of the frame filter comes from, if the policy has WebSockets.
    ///
    /// # Errors
    /// As [`Self::source`].
    pub fn frames_source(
        &self,
        resolve: Resolve<'_>,
    ) -> Result<Option<ModuleLocation>, PolicyProblem> {
        let Some(websockets) = &self.websockets else { return Ok(None) };
        source::read(&websockets.module, websockets.digest.as_deref(), resolve)
            .and_then(|source| source.reachable(&self.placement))
            .map(|source| match self.delivery {
                Delivery::Proxy => Some(source),
                Delivery::ImageVolume => Some(source.mounted(FRAMES_FOLDER)),
            })
            .map_err(|(field, message)| PolicyProblem::new(format!("websockets.{field}"), message))
    }

    /// What the policy file may look like (JSON Schema, draft 2020-12).
    #[must_use]
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

/// A text of comments alone is a policy with all defaults, too.
fn shape(text: &str) -> Result<File, PolicyProblem> {
    let says_nothing = |line: &str| {
        line.trim().is_empty() || line.trim_start().starts_with('#') || line.trim_end() == "---"
    };
    if text.lines().all(says_nothing) {
        return Ok(File::default());
    }
    serde_saphyr::from_str(text).map_err(|error| {
        let place = error
            .location()
            .filter(|place| place.line() > 0)
            .map(|place| (place.line(), place.column()));
        PolicyProblem { path: String::new(), message: bare(&error), place }
    })
}

/// The reader's words without the snippet and the place around them.
fn bare(error: &serde_saphyr::Error) -> String {
    let words = error.without_snippet().to_string();
    let end = words.find(" at line ").or_else(|| words.find("\n")).unwrap_or(words.len());
    words.get(..end).unwrap_or(&words).trim_end_matches([',', ':']).to_owned()
}

fn apply(mut file: File, overrides: &Overrides) -> File {
    let over = |mine: &mut Option<String>, theirs: &Option<String>| {
        if theirs.is_some() {
            mine.clone_from(theirs);
        }
    };
    if let Some(module) = &overrides.module {
        file.digest = None;
        file.delivery = file.delivery.filter(|_| module.starts_with("oci://"));
    }
    over(&mut file.module, &overrides.module);
    over(&mut file.digest, &overrides.digest);
    over(&mut file.namespace, &overrides.namespace);
    over(&mut file.name, &overrides.name);
    file.engine = overrides.engine.or(file.engine);
    file
}

/// What the command line said has no place in the file.
fn place(text: &str, problem: &PolicyProblem, overrides: &Overrides) -> Option<(u64, u64)> {
    let from_flag = match problem.path.as_str() {
        "module" => overrides.module.is_some(),
        "digest" => overrides.digest.is_some(),
        "namespace" => overrides.namespace.is_some(),
        "name" => overrides.name.is_some(),
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
