//! `laststream render …`

mod into;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use laststream_policy::file::Engine;
use laststream_policy::{Overrides, Policy};
use laststream_render::output::{self, Difference};
use laststream_render::{self as render, HookPlace, Kind, Rendered};

use crate::commands::exit::Exit;
use crate::commands::input::{policy, policy_text};
use crate::commands::printer::Printer;
use crate::commands::registry_args::RegistryArgs;
use crate::commands::tags::with_digests;

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
    #[arg(short, long, visible_alias = "image", value_name = "MODULE")]
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
    /// The engine that restores x-forwarded-proto, in place of the policy's. If neither is given,
    /// it is `auto`.
    #[arg(long, value_enum)]
    pub(crate) engine: Option<Engine>,
    /// The place of the stop hook, for `lifecycle`. The default depends on the policy's placement.
    #[arg(long = "for", value_enum, value_name = "HOME")]
    pub(crate) home: Option<HookPlace>,
    /// The folder to write the files to; `-` for standard output. Files there that laststream has
    /// not rendered are not replaced.
    #[arg(short, long, value_name = "DIR", default_value = "-")]
    pub(crate) output: PathBuf,
    /// Writes nothing. If the folder differs from the rendered files, it prints what differs, and
    /// the exit code is 1.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "diff"])]
    pub(crate) check: Option<PathBuf>,
    /// Writes nothing. Shows what would change in the folder.
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pub(crate) diff: Option<PathBuf>,
    /// For `envoy`: merges the filters, the gate's listener and the cluster of the admin interface
    /// into this bootstrap, and shows what changes. Comments stay.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "check", "diff"])]
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
  laststream render all --policy policy.yaml --output deploy/gateway
  laststream render all --policy policy.yaml --check deploy/gateway
  laststream render envoy --policy plain.yaml --into envoy.yaml --write
  laststream render lifecycle --policy policy.yaml --for helm-values
  laststream render schema > policy.schema.json

A whole policy, for a gateway behind an AWS load balancer:
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

const TWO_STANDARD_INPUTS: &str =
    "policy and password cannot both come from standard input: name a file with `--policy FILE`";

pub(super) fn run(command: &Render, printer: &Printer) -> Result<Exit, Exit> {
    if command.home.is_some() && command.kind != RenderArg::Rendered(Kind::Lifecycle) {
        return Err(printer.misused(&"`--for` is for `render lifecycle`"));
    }
    if command.into.is_some() && command.kind != RenderArg::Rendered(Kind::Envoy) {
        return Err(printer.misused(&"`--into` is for `render envoy`"));
    }
    if let Some(problem) = without_effect(command) {
        return Err(printer.misused(&problem));
    }
    let kind = match command.kind {
        RenderArg::Rendered(kind) => kind,
        RenderArg::Schema => {
            printer.json(&format!("{:#}", Policy::schema()));
            return Ok(Exit::Fine);
        }
    };
    let is_stdin = command.policy.as_deref() == Some(Path::new("-"));
    if is_stdin && command.registry.password_stdin {
        return Err(printer.misused(&TWO_STANDARD_INPUTS));
    }
    let policy = policy_of(command, printer)?;
    if let Some(file) = &command.into {
        return into::run(&policy, file, command.write, printer);
    }
    let rendered = with_digests(&command.registry, printer, |resolve| match command.home {
        Some(home) => render::lifecycle(&policy, home),
        None => render::render(kind, &policy, resolve),
    })?;
    let rendered = rendered.map_err(|problem| printer.failed(&problem))?;
    rendered.warnings.iter().for_each(|warning| printer.warning(warning));
    deliver(command, &rendered, printer)
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
        ("--output", command.output != Path::new("-")),
        ("--check", command.check.is_some()),
        ("--diff", command.diff.is_some()),
    ];
    let mut given = options.iter().filter(|(_, is_given)| *is_given);
    let (option, _) = given.next().filter(|_| command.kind == RenderArg::Schema)?;
    Some(format!("`{option}` has no effect on `render schema`: take it out"))
}

/// The field `delivery` of the policy file is for images only.
const GATE_DROPPED: &str = "--module: it is not an image, so `delivery: image_volume` has no \
    effect, and without that this proxy has no gate: write `--module oci://HOST/REPOSITORY:TAG`";

fn policy_of(command: &Render, printer: &Printer) -> Result<Policy, Exit> {
    let overrides = Overrides {
        module: command.module.clone(),
        digest: command.digest.clone(),
        namespace: command.namespace.clone(),
        name: command.name.clone(),
        engine: command.engine,
    };
    let file = command.policy.as_deref();
    let text = policy_text(file, printer)?;
    let policy = policy(file, "the command line", Policy::read(&text, &overrides), printer)?;
    if policy.gate_dropped {
        printer.warning(&GATE_DROPPED);
    }
    Ok(policy)
}

fn deliver(command: &Render, rendered: &Rendered, printer: &Printer) -> Result<Exit, Exit> {
    if let Some(folder) = command.check.as_ref().or(command.diff.as_ref()) {
        return compare(command, folder, rendered, printer);
    }
    if command.output == Path::new("-") {
        return Ok(print(rendered, printer));
    }
    let written = output::write(&command.output, rendered);
    let written = written.map_err(|error| printer.failed(&error))?;
    let left = differences(command, &command.output, rendered, printer)?;
    written.iter().for_each(|name| {
        printer.status_line(&format!("wrote {}", command.output.join(name).display()))
    });
    left.iter().for_each(|difference| printer.warning(&words(difference)));
    Ok(Exit::Fine)
}

fn differences(
    command: &Render,
    folder: &Path,
    rendered: &Rendered,
    printer: &Printer,
) -> Result<Vec<Difference>, Exit> {
    output::differences(folder, rendered, command.kind == RenderArg::Rendered(Kind::All))
        .map_err(|error| printer.failed(&error))
}

/// Prints one file. Several files are an error, because some are no objects, and `kubectl apply`
/// would apply only half of them.
fn print(rendered: &Rendered, printer: &Printer) -> Exit {
    if let [file] = rendered.files.as_slice() {
        printer.stdout_verbatim(&file.text);
        return Exit::Fine;
    }
    let names: Vec<&str> = rendered.files.iter().map(|file| file.name.as_str()).collect();
    printer.misused(&format!(
        "these are several files, not all of them for `kubectl apply`: {}; name a folder: \
            `--output DIR`",
        names.join(", ")
    ))
}

fn compare(
    command: &Render,
    folder: &Path,
    rendered: &Rendered,
    printer: &Printer,
) -> Result<Exit, Exit> {
    let differences = differences(command, folder, rendered, printer)?;
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
