//! `laststream render …`

mod into;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use laststream_policy::file::Engine;
use laststream_policy::{Overrides, Policy, Sizing};
use laststream_render::output::{self, Difference};
use laststream_render::{self as render, HookPlace, Kind, Rendered};

use crate::args::registry::RegistryArgs;
use crate::commands::policy_images::PolicyImages;
use crate::commands::{Ended, Exit, Failure, Printer, misused};
use crate::input::{policy, policy_text};

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
    registry: RegistryArgs,
}

const EXAMPLES: &str = "\
Examples:
  laststream render envoyfilter --policy policy.yaml | kubectl apply -f -
  laststream render all --policy policy.yaml --output-dir deploy/gateway
  laststream render all --policy policy.yaml --check deploy/gateway
  laststream render envoy --policy plain.yaml --into envoy.yaml --write
  laststream render lifecycle --policy policy.yaml --for helm-values
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
    fn is_all(&self) -> bool {
        self.kind == RenderArg::Rendered(Kind::All)
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

const NOT_LOOKED_AT: &str = "`--digest` is used as it is: whether it is laststream's module was \
    not looked at";

const TWO_STANDARD_INPUTS: &str =
    "policy and password cannot both come from standard input: name a file with `--policy FILE`";

pub(crate) fn run(command: &Render, printer: &Printer) -> Ended {
    if command.home.is_some() && command.kind != RenderArg::Rendered(Kind::Lifecycle) {
        return Err(misused("`--for` is for `render lifecycle`"));
    }
    if command.into.is_some() && command.kind != RenderArg::Rendered(Kind::Envoy) {
        return Err(misused("`--into` is for `render envoy`"));
    }
    if let Some(problem) = without_effect(command) {
        return Err(misused(problem));
    }
    let kind = match command.kind {
        RenderArg::Rendered(kind) => kind,
        RenderArg::Schema => {
            printer.value(&Policy::schema());
            return Ok(Exit::Fine);
        }
    };
    let is_stdin = command.policy.as_deref() == Some(Path::new("-"));
    if is_stdin && command.registry.password_stdin {
        return Err(misused(TWO_STANDARD_INPUTS));
    }
    let policy = policy_of(command, printer)?;
    if let Some(file) = &command.into {
        return into::run(&policy, file, command.write, printer);
    }
    let images = PolicyImages::new(&command.registry, &policy, printer);
    let rendered = images.with_digests(|resolve| match command.home {
        Some(home) => render::lifecycle(&policy, home),
        None => render::render(kind, &policy, resolve),
    })?;
    let rendered = rendered?;
    look_at_pinned(command, &policy, &rendered, &images, printer)?;
    rendered.warnings.iter().for_each(|warning| printer.warning(warning));
    deliver(command, &policy, &rendered, printer)
}

/// A digest on the command line renders without a registry; a pipeline's check of a folder needs
/// none either.
fn look_at_pinned(
    command: &Render,
    policy: &Policy,
    rendered: &Rendered,
    images: &PolicyImages<'_>,
    printer: &Printer,
) -> Result<(), Failure> {
    if command.check.is_some() {
        return Ok(());
    }
    let is_rendered = |hex: &str| rendered.files.iter().any(|file| file.text.contains(hex));
    match command.digest.as_deref() {
        Some(digest) if is_rendered(digest.trim_start_matches("sha256:")) => {
            printer.status_line(NOT_LOOKED_AT);
            Ok(())
        }
        _ => images.compare_unused_tags(policy, is_rendered),
    }
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

/// The field `delivery` of the policy file is for images only.
const GATE_DROPPED: &str = "--module: it is not an image, so `delivery: image_volume` has no \
    effect, and without that this proxy has no gate: write `--module oci://HOST/REPOSITORY:TAG`";

fn policy_of(command: &Render, printer: &Printer) -> Result<Policy, Failure> {
    let overrides = Overrides {
        module: command.module.clone(),
        digest: command.digest.clone(),
        namespace: command.namespace.clone(),
        name: command.name.clone(),
        istio: command.istio.clone(),
        engine: command.engine,
    };
    let file = command.policy.as_deref();
    let text = policy_text(file)?;
    let policy = policy(file, "the command line", Policy::read(&text, &overrides), printer)?;
    if policy.gate_dropped {
        printer.warning(&GATE_DROPPED);
    }
    Ok(policy)
}

fn deliver(command: &Render, policy: &Policy, rendered: &Rendered, printer: &Printer) -> Ended {
    if let Some(folder) = command.check.as_ref().or(command.diff.as_ref()) {
        return compare(command, folder, rendered, printer);
    }
    if !policy.given.is_empty() {
        printer.status_line(&format!("the profile gave {}", policy.given.join(", ")));
    }
    if command.output_dir == Path::new("-") {
        return print(rendered, printer);
    }
    let paths = output::write(&command.output_dir, rendered)?;
    let differences = output::differences(&command.output_dir, rendered, command.is_all())?;
    paths.iter().for_each(|name| {
        printer.status_line(&format!("wrote {}", command.output_dir.join(name).display()))
    });
    differences.iter().for_each(|difference| printer.warning(&words(difference)));
    if !paths.is_empty() {
        say_times_and_next_steps(command, policy, rendered, printer);
    }
    Ok(Exit::Fine)
}

fn say_times_and_next_steps(
    command: &Render,
    policy: &Policy,
    rendered: &Rendered,
    printer: &Printer,
) {
    if policy.gate_port.is_some() {
        let Sizing { longest_request, grace_period, .. } = &policy.sizing;
        printer.status_line(&format!(
            "for requests of up to {longest_request}: a pod that stops cuts longer ones; its grace \
                period is {grace_period} (`drain.longest_request` changes both)"
        ));
    }
    if command.is_all() {
        let folder = command.output_dir.display().to_string();
        printer.status_line("next:");
        let steps = render::next_steps(policy, rendered, &folder);
        steps.iter().for_each(|step| printer.status_line(&format!("  {step}")));
    }
}

/// Prints one file. Several files are an error, because some are no objects, and `kubectl apply`
/// would apply only half of them.
fn print(rendered: &Rendered, printer: &Printer) -> Ended {
    if let [file] = rendered.files.as_slice() {
        printer.stdout_verbatim(&file.text);
        return Ok(Exit::Fine);
    }
    let names: Vec<&str> = rendered.files.iter().map(|file| file.name.as_str()).collect();
    Err(misused(format!(
        "these are several files, not all of them for `kubectl apply`: {}; name a folder: \
            `--output-dir DIR`",
        names.join(", ")
    )))
}

fn compare(command: &Render, folder: &Path, rendered: &Rendered, printer: &Printer) -> Ended {
    let differences = output::differences(folder, rendered, command.is_all())?;
    for difference in &differences {
        if let Difference::Changed(_, diff) = difference {
            printer.stdout(diff);
        }
        printer.status_line(&words(difference));
    }
    let is_wrong = command.check.is_some() && !differences.is_empty();
    Ok(if is_wrong { Exit::Negative } else { Exit::Fine })
}

fn words(difference: &Difference) -> String {
    match difference {
        Difference::Missing(name) => format!("missing: {name}"),
        Difference::Changed(name, _) => format!("differs: {name}"),
        Difference::Stale(name) => {
            format!("stale: {name} was rendered once and is no part of it any more")
        }
    }
}
