//! The arguments of `laststream lint`, and the files that they name.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use laststream_base::versions::{self, GATEWAY_API, ISTIO, KUBERNETES, Program, Release};
use laststream_lint::crds::{Definition, Definitions};
use laststream_lint::upgrade::Step;
use laststream_lint::{self as lint, Assume, Rule, Severity, SourceFile};

use super::cluster::LiveArgs;
use crate::commands::{Failure, misused};

/// Checks manifests, or the objects of a cluster, for mistakes that lose requests: EnvoyFilters,
/// pods, Helm values, plain Envoys.
///
/// All files are checked together, because a name may collide with another file, and a grace period
/// may be too short for a gate in another file. Folders are searched for .yaml, .yml and .json. A
/// comment `# laststream-lint: ignore=LS206` ignores a rule on its own line; on a line by itself,
/// it ignores the rule on the next line. `ignore-file=` ignores the rule in the whole file.
///
/// With `--cluster` the objects of the API server are checked, and what only the running pods show:
/// settings that differ from their template, and the answers of their gates. With `--change` as
/// well: how many streams of its pods the change would cut now.
///
/// Exit codes: 0 no finding at or above `--fail-on`, 1 at least one, 2 a file could not be read or
/// the API server cannot be asked, 64 wrong arguments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Lint {
    /// Files and folders; `-` for standard input.
    #[arg(value_name = "FILE",
        required_unless_present_any = ["list", "explain", "change", "cluster"])]
    pub(super) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) live: LiveArgs,
    /// Says which parts of a change replace listeners or filter chains in Istio and in Envoy
    /// Gateway, on which workloads, and how long streams then have. OLD and NEW are files or
    /// folders, one of them may be `-`. With `--cluster`: how many streams that would cut now.
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"], conflicts_with_all = ["files", "list"])]
    pub(super) change: Option<Vec<PathBuf>>,
    /// Says what an upgrade changes for these files, or for the objects of a cluster: for streams,
    /// ports, drains, trust and the objects themselves. Separate several programs by commas, or
    /// repeat the option: istio, envoy, envoy-gateway, kubernetes. Those of Istio and of Envoy
    /// Gateway include the Envoy in them.
    #[arg(long, value_name = "PROGRAM=FROM:TO", value_delimiter = ',',
        conflicts_with_all = ["change", "list", "explain"])]
    upgrade: Vec<Step>,
    /// The format of the findings. `json` prints one object: `files` and `objects_read`, or
    /// `objects`; `errors`, `warnings`, `infos`; `findings`, each with `code`, `severity`, `title`,
    /// `path`, `message`, `fix`, and its place: `file`, `line` and `column`, or `object`; `stops`
    /// as in docs/assess.md; and with `--change` in a cluster `cut_now`.
    #[arg(short, long, value_enum, default_value_t)]
    pub(super) output: Format,
    /// The lowest severity that makes the exit code 1.
    #[arg(long, value_enum, default_value_t = Severity::Warning)]
    pub(super) fail_on: Severity,
    /// Ignores a rule. Separate several codes by commas, or repeat the option.
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = rule)]
    ignore: Vec<&'static Rule>,
    /// The version of Istio, for rules that depend on it.
    #[arg(long, value_name = "VERSION", value_parser = versions::release)]
    istio: Option<Release>,
    /// The version of the Gateway API's CRDs, against which its objects are checked.
    #[arg(long, value_name = "VERSION", value_parser = versions::release)]
    gateway_api: Option<Release>,
    /// The version of Kubernetes, for rules that depend on it.
    #[arg(long, value_name = "VERSION", value_parser = versions::release)]
    kubernetes: Option<Release>,
    /// A file with CRDs, in place of the built-in schemas of their kinds. Separate several files
    /// by commas, or repeat the option.
    #[arg(long, value_name = "FILE", value_delimiter = ',', conflicts_with = "cluster")]
    crds: Vec<PathBuf>,
    /// Explains a rule.
    #[arg(long, value_name = "CODE", value_parser = rule,
        conflicts_with_all = ["files", "list", "cluster"])]
    pub(super) explain: Option<&'static Rule>,
    /// Lists all rules.
    #[arg(long, conflicts_with_all = ["files", "cluster"])]
    pub(super) list: bool,
}

const EXAMPLES: &str = "Examples:
  laststream lint mesh/
  kubectl kustomize overlays/prod | laststream lint --istio 1.29 -
  laststream lint --output sarif mesh/ > laststream.sarif
  laststream lint --explain LS204
  laststream lint --change mesh/ changed/
  laststream lint --upgrade istio=1.30:1.31,kubernetes=1.34:1.36 mesh/
  laststream lint --change mesh/ changed/ --cluster -A
  laststream lint --cluster -n shop";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Text for a terminal.
    #[default]
    Text,
    /// JSON.
    Json,
    /// SARIF 2.1.0, for code hosts.
    Sarif,
}

fn rule(code: &str) -> Result<&'static Rule, String> {
    lint::rules()
        .find(|rule| rule.code.eq_ignore_ascii_case(code))
        .ok_or_else(|| "there is no such rule; `laststream lint --list` names them".into())
}

impl Lint {
    /// Whether manifests are checked, instead of rules printed.
    pub(crate) fn is_check(&self) -> bool {
        !self.list && self.explain.is_none()
    }

    /// Refuses options that contradict each other.
    pub(super) fn refuse_contradictions(&self) -> Result<(), Failure> {
        let named = self.files.iter().chain(self.change.iter().flatten()).chain(&self.crds);
        if named.filter(|file| *file == Path::new("-")).count() > 1 {
            return Err(misused(
                "more than one is standard input: name files for all but one of them",
            ));
        }
        self.live.refuse_without_cluster()
    }

    /// Warnings about versions whose rules the program does not have.
    pub(super) fn outside_of_table(&self) -> impl Iterator<Item = String> {
        let versions =
            [(ISTIO, self.istio), (GATEWAY_API, self.gateway_api), (KUBERNETES, self.kubernetes)];
        versions.into_iter().filter_map(|(program, version)| outside_of_table(&program, version?))
    }

    pub(super) fn assume(&self) -> Result<Assume, Failure> {
        let assume = Assume {
            istio: self.istio,
            gateway_api: self.gateway_api,
            kubernetes: self.kubernetes,
            crds: read_crds(&self.crds)?,
            ignored: self.ignore.iter().map(|rule| rule.code).collect(),
            ..Assume::default()
        };
        Ok(assume.with_upgrade(self.upgrade.clone()))
    }
}

fn outside_of_table(program: &Program, version: Release) -> Option<String> {
    let nearest = versions::text(program.instead_of(version)?);
    let way_out = if [ISTIO, GATEWAY_API].contains(program) {
        ". For the CRDs of yours, name the file with them: `--crds FILE`"
    } else {
        ""
    };
    let Program { name, .. } = program;
    let range = program.range();
    Some(format!("{name} {range} are known: objects are judged by the rules of {nearest}{way_out}"))
}

pub(crate) fn gather(paths: &[PathBuf]) -> Result<Vec<SourceFile>, Failure> {
    Ok(lint::gather(paths, &mut io::stdin().lock())?)
}

fn read_crds(files: &[PathBuf]) -> Result<Definitions, Failure> {
    let mut definitions = Vec::new();
    for file in files {
        for source in gather(std::slice::from_ref(file))? {
            let text = source.text.unwrap_or_default();
            definitions.extend(Definition::of_crds(&source.name, &text)?);
        }
    }
    Ok(Definitions::from_files(definitions))
}
