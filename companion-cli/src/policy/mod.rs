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

use std::collections::BTreeMap;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::time_span::TimeSpan;
use crate::yaml::tree::{MOST_NODES, Tree};
pub use error::{PolicyError, PolicyProblem};
use file::{
    App, Begin, Delivery, Engine, FailurePolicy, File, Finish, GateSecret, LongLived, Placement,
    Retries,
};
pub use sizing::{KUBELET, LATE, Sizing};
pub use source::{MODULE_FOLDER, ModuleLocation, Resolve};

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
    /// The gate's port, if there is a gate.
    pub gate_port: Option<u16>,
    /// Where the proxy has the gate's secret from.
    pub gate_secret: Option<GateSecret>,
    /// Names under which the gate may be asked.
    pub gate_hosts: Vec<String>,
    /// How the drain begins.
    pub begin: Begin,
    /// How it ends.
    pub finish: Finish,
    /// What long-lived streams do to it.
    pub long_lived: LongLived,
    /// The age that makes a stream long-lived.
    pub long_lived_after: Option<TimeSpan>,
    /// The app that it also waits for.
    pub app: Option<App>,
    /// How long everything takes.
    pub sizing: Sizing,
    /// Istio's own setting is kept.
    pub exit_on_zero: bool,
    /// Retries at the caller's side.
    pub retries: Option<Retries>,
    /// A Job beside a sidecar.
    pub job: Option<file::Job>,
    /// Warnings.
    pub warnings: Vec<String>,
    module: Option<String>,
    digest: Option<String>,
}

/// What rendering must know of `forwarded_proto` besides its text.
#[derive(Debug, Clone)]
pub struct ForwardedProto {
    /// The text.
    pub json: Value,
    /// The header that an early mutation saves `x-forwarded-proto` in; nothing where no source
    /// reads it.
    pub saved_in: Option<String>,
    /// Whether the early mutation removes `x-forwarded-proto`. Then Envoy writes the connection's
    /// scheme, also where it would keep what the peer sent, and that is what is left when the
    /// module fails. `keep` forbids it.
    pub forgets: bool,
    /// What the module reads from filter state; nothing where no address is trusted.
    pub peer_info: Option<PeerInfo>,
    /// The address ranges that are trusted.
    pub peers: Vec<String>,
}

/// A value of filter state: the direct peer's address, and what else saves the module a look at the
/// headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerInfo {
    /// Its key.
    pub key: String,
    /// Headers, in the order that the module expects; an empty name for what it does not look at.
    /// Nothing where it must look at others.
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
        check::check(apply(file, overrides)).map_err(|problems| {
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
            .map(|source| match self.delivery {
                Delivery::Proxy => source,
                Delivery::ImageVolume => source.mounted(),
            })
            .map_err(|(field, message)| PolicyProblem::new(field, message))
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
