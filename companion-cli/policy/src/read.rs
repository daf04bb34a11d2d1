//! Reads and checks a policy, with values of the command line in place of the file's.

use serde_json::Value;

use crate::error::{PolicyError, PolicyProblem};
use crate::file::{self, Delivery, Engine, File};
use crate::policy::Policy;
use crate::{check, profile, shape};
use laststream_base::yaml::tree::{MOST_NODES, Tree};

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
        let profile_fields = profile::fill(&mut file);
        let policy = check::check(file).map_err(|problems| {
            let with_place = |problem: PolicyProblem| PolicyProblem {
                place: place(text, &problem, overrides),
                ..problem
            };
            PolicyError(problems.into_iter().map(with_place).collect())
        })?;
        let gate_dropped = delivery_dropped && wants_gate && policy.gate_port.is_none();
        Ok(Self { gate_dropped, given: profile_fields, ..policy })
    }

    /// The JSON Schema (draft 2020-12) of the policy file.
    pub fn schema() -> Value {
        file::schema()
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
