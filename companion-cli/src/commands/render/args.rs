//! The arguments of `laststream render`.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use laststream_policy::file::Engine;
use laststream_render::{HookPlace, Kind};

use crate::args::registry::RegistryArgs;
use crate::commands::{Failure, misused};

/// Renders manifests for Istio, Envoy, Envoy Gateway and Helm from one policy file.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Render {
    /// What to render.
    #[arg(value_enum)]
    pub(crate) kind: RenderArg,
    /// The policy file; `-` for standard input. Without a policy, streams of an Istio gateway are
    /// counted, and there is a gate with defaults.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// The module, in place of the policy's: `oci://HOST/REPOSITORY:TAG`, `https://…/plugin.wasm`,
    /// or a file.
    #[arg(short, long, value_name = "MODULE")]
    pub(crate) module: Option<String>,
    /// The digest of the image's manifest, or the checksum of a download, as `sha256:…`. By default
    /// the program asks the registry for the digest of the tag, because tags are never rendered.
    #[arg(long, value_name = "DIGEST")]
    pub(crate) digest: Option<String>,
    /// The namespace of the resources, in place of the policy's.
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,
    /// The name of the resources, in place of the policy's.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The mesh's version of Istio, in place of the policy's. From 1.30 on `wasmplugin` is a
    /// TrafficExtension.
    #[arg(long, value_name = "VERSION")]
    pub(crate) istio: Option<String>,
    /// The engine that restores x-forwarded-proto, in place of the policy's. If neither is given,
    /// it is `auto`.
    #[arg(long, value_enum)]
    pub(crate) engine: Option<Engine>,
    /// The place of the stop hook, for `lifecycle`. The default depends on the policy's placement.
    #[arg(long = "for", value_enum, value_name = "HOME")]
    pub(crate) home: Option<HookPlace>,
    /// The folder to write the files to; `-` for standard output. Files there that laststream has
    /// not rendered are not replaced.
    #[arg(short = 'd', long, value_name = "DIR", default_value = "-", value_parser = folder)]
    pub(crate) output_dir: PathBuf,
    /// Writes nothing. If the folder differs from the rendered files, it prints what differs, and
    /// the exit code is 1.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output_dir", "diff"])]
    pub(crate) check: Option<PathBuf>,
    /// Writes nothing. Shows what would change in the folder.
    #[arg(long, value_name = "DIR", conflicts_with = "output_dir")]
    pub(crate) diff: Option<PathBuf>,
    /// For `envoy`: merges the filters, the gate's listener and the cluster of the admin interface
    /// into this bootstrap, and shows what changes. Comments stay.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output_dir", "check", "diff"])]
    pub(crate) into: Option<PathBuf>,
    /// Writes the file of `--into`.
    #[arg(long, requires = "into")]
    pub(crate) write: bool,
    #[command(flatten)]
    pub(super) registry: RegistryArgs,
}

const EXAMPLES: &str = "\
Examples:
  laststream render envoyfilter --policy policy.yaml | kubectl apply -f -
  laststream render all --policy policy.yaml --output-dir deploy/gateway
  laststream render all --policy policy.yaml --check deploy/gateway
  laststream render envoy --policy plain.yaml --into envoy.yaml --write
  laststream render proxy-config --policy policy.yaml
  laststream render schema > policy.schema.json

A whole policy, for a gateway behind an AWS load balancer:
  namespace: istio-ingress
  module: oci://ghcr.io/example/laststream:0.1.0
  digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
  forwarded_proto:
    presets: [aws_alb]
    trust: {peers: [10.0.0.0/16]}";

/// The first argument of `render`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RenderArg {
    Rendered(Kind),
    Schema,
}

impl ValueEnum for RenderArg {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<RenderArg>> = LazyLock::new(|| {
            Kind::value_variants()
                .iter()
                .copied()
                .map(RenderArg::Rendered)
                .chain([RenderArg::Schema])
                .collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Rendered(kind) => kind.to_possible_value(),
            Self::Schema => Some(
                PossibleValue::new("schema")
                    .help("Not rendered from a policy: the policy file's own JSON schema"),
            ),
        }
    }
}

impl Render {
    pub(super) fn is_all(&self) -> bool {
        self.kind == RenderArg::Rendered(Kind::All)
    }

    /// Refuses options that have no effect on what is rendered.
    pub(super) fn refuse_without_effect(&self) -> Result<(), Failure> {
        if self.home.is_some() && self.kind != RenderArg::Rendered(Kind::Lifecycle) {
            return Err(misused("`--for` is for `render lifecycle`"));
        }
        if self.into.is_some() && self.kind != RenderArg::Rendered(Kind::Envoy) {
            return Err(misused("`--into` is for `render envoy`"));
        }
        without_effect(self).map_or(Ok(()), |problem| Err(misused(problem)))
    }
}

/// Values of `--output` in other commands.
const FORMATS: [&str; 5] = ["json", "sarif", "text", "wide", "yaml"];

fn folder(name: &str) -> Result<PathBuf, String> {
    if FORMATS.contains(&name) {
        return Err(format!("this is the name of a format: write `./{name}` for such a folder"));
    }
    Ok(name.into())
}

/// The error for the first option that has no effect on `render schema`.
fn without_effect(command: &Render) -> Option<String> {
    let options = [
        ("--policy", command.policy.is_some()),
        ("--module", command.module.is_some()),
        ("--digest", command.digest.is_some()),
        ("--engine", command.engine.is_some()),
        ("--namespace", command.namespace.is_some()),
        ("--name", command.name.is_some()),
        ("--istio", command.istio.is_some()),
        ("--output-dir", command.output_dir != Path::new("-")),
        ("--check", command.check.is_some()),
        ("--diff", command.diff.is_some()),
    ];
    let mut names = options.iter().filter(|(_, is_given)| *is_given);
    let (option, _) = names.next().filter(|_| command.kind == RenderArg::Schema)?;
    Some(format!("`{option}` has no effect on `render schema`: take it out"))
}
