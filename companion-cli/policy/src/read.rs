//! Reads and checks a policy, with values of the command line in place of the file's.

use std::collections::HashMap;

use serde_json::Value;

use crate::error::{PolicyError, PolicyProblem};
use crate::file::{self, Delivery, Engine, File};
use crate::policy::Policy;
use crate::{check, profile, shape};
use laststream_base::time_span::TimeSpan;
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
        let (file, wrong) = shape::shape(text);
        let Some(file) = file else { return Err(PolicyError(wrong)) };
        let is_volume = file.delivery == Some(Delivery::ImageVolume);
        let wants_gate = file.gate.enabled != Some(false);
        let mut file = apply(file, overrides);
        let delivery_dropped = is_volume && file.delivery.is_none();
        let profile_fields = profile::fill(&mut file);
        let policy = match check::check(file) {
            Ok(policy) if wrong.is_empty() => policy,
            checked => {
                let problems = checked.err().into_iter().flatten();
                let problems = problems.filter(|problem| is_sure(problem, &wrong));
                let tree = Tree::read(text, MOST_NODES);
                let with_place = |problem: PolicyProblem| PolicyProblem {
                    place: place(&tree, &problem.path, overrides),
                    message: as_written(&tree, &problem.message),
                    ..problem
                };
                let problems: Vec<_> = problems.map(with_place).collect();
                return Err(PolicyError(wrong.into_iter().chain(problems).collect()));
            }
        };
        let gate_dropped = delivery_dropped && wants_gate && policy.gate_port.is_none();
        Ok(Self { gate_dropped, given: profile_fields, ..policy })
    }

    /// The JSON Schema (draft 2020-12) of the policy file.
    pub fn schema() -> Value {
        file::schema()
    }
}

/// Sections of which many other fields depend.
const DECIDING: [&str; 4] = ["placement", "module", "delivery", "profile"];

/// Whether a problem is there whatever a wrong field is meant to be.
fn is_sure(problem: &PolicyProblem, wrong: &[PolicyProblem]) -> bool {
    let section = |problem: &PolicyProblem| {
        problem.path.split(['.', '[']).next().unwrap_or_default().to_owned()
    };
    let name = section(problem);
    !wrong.iter().map(section).any(|other| other == name || DECIDING.contains(&&*other))
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
        let is_image = module.starts_with("oci://");
        file.delivery = file.delivery.filter(|way| is_image || *way != Delivery::ImageVolume);
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
fn place(tree: &Tree, path: &str, overrides: &Overrides) -> Option<(u64, u64)> {
    let from_flag = match path {
        "module" => overrides.module.is_some(),
        "digest" => overrides.digest.is_some(),
        "namespace" => overrides.namespace.is_some(),
        "name" => overrides.name.is_some(),
        "istio" => overrides.istio.is_some(),
        _ => false,
    };
    let place = tree.place_of(path).filter(|_| !from_flag)?;
    Some((place.line.into(), place.column.into()))
}

/// The message with times as the file has them, such as `5m` for 300s.
fn as_written(tree: &Tree, message: &str) -> String {
    let times = (0..).zip(&tree.nodes).filter_map(|(id, _)| {
        let text = tree.text(id)?;
        Some((text.parse::<TimeSpan>().ok()?.to_string(), text))
    });
    let times: HashMap<String, &str> = times.collect();
    let word = |word: &str| {
        let time = word.trim_matches(|character: char| !character.is_ascii_alphanumeric());
        times.get(time).map_or(word.to_owned(), |written| word.replacen(time, written, 1))
    };
    message.split(' ').map(word).collect::<Vec<_>>().join(" ")
}
