//! `laststream render …`

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use laststream::digest::Digest;
use laststream::oci::image::Reference;
use laststream::oci::registry::Registry;
use laststream::policy::file::Engine;
use laststream::policy::{Overrides, Policy};
use laststream::render::output::{self, Difference};
use laststream::render::{self, Home, Kind, Rendered};

use crate::commands::Exit;
use crate::commands::input::{policy, policy_text};
use crate::commands::printer::Printer;
use crate::commands::registry_args::RegistryArgs;

/// Renders what Istio, Envoy, Envoy Gateway and Helm need, from one policy file.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Render {
    /// What to render.
    #[arg(value_enum)]
    pub(crate) kind: What,
    /// The policy file; `-` for standard input. Without one: an Istio gateway, streams counted, a gate, defaults for everything else.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// The module, instead of the policy's: `oci://HOST/REPOSITORY:TAG`, `https://…/plugin.wasm`, or a file.
    #[arg(short, long, visible_alias = "image", value_name = "MODULE")]
    pub(crate) module: Option<String>,
    /// The image's manifest digest, or the checksum of a download; `sha256:…`. Without it the registry is asked what the tag stands for:
    /// tags are never rendered.
    #[arg(long, value_name = "DIGEST")]
    pub(crate) digest: Option<String>,
    /// The resources' namespace, instead of the policy's.
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,
    /// The resources' name, instead of the policy's.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Who restores x-forwarded-proto, instead of the policy's. Without either: `auto`.
    #[arg(long, value_enum)]
    pub(crate) engine: Option<By>,
    /// Where the stop hook lives; for `lifecycle`. Without it: as the placement suggests.
    #[arg(long = "for", value_enum, value_name = "HOME")]
    pub(crate) home: Option<Where>,
    /// The folder to write the files to; `-` for standard output.
    #[arg(short, long, value_name = "DIR", default_value = "-")]
    pub(crate) output: PathBuf,
    /// Writes nothing: ends with 1 and says what differs if the folder is not exactly as rendered.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "diff"])]
    pub(crate) check: Option<PathBuf>,
    /// Writes nothing: shows what would change in the folder.
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pub(crate) diff: Option<PathBuf>,
    #[command(flatten)]
    registry: RegistryArgs,
}

const EXAMPLES: &str = "\
Examples:
  laststream render envoyfilter --policy policy.yaml | kubectl apply -f -
  laststream render all --policy policy.yaml --output deploy/gateway
  laststream render all --policy policy.yaml --check deploy/gateway
  laststream render lifecycle --policy policy.yaml --for helm-values
  laststream render schema > policy.schema.json

A whole policy, for a gateway behind an AWS load balancer:
  module: oci://ghcr.io/example/laststream:0.1.0
  digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
  forwarded_proto:
    presets: [aws_alb]
    trust: {peers: [10.0.0.0/16]}";

/// What can be rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// One EnvoyFilter with all parts: counters, gate, x-forwarded-proto. For gateways and sidecars.
    #[value(name = "envoyfilter")]
    EnvoyFilter,
    /// WasmPlugins: with pull secrets, for waypoints too, but without a gate.
    #[value(name = "wasmplugin")]
    WasmPlugin,
    /// A complete bootstrap for an Envoy without a mesh.
    Envoy,
    /// Envoy Gateway's policies.
    EnvoyGateway,
    /// The stop hook that asks the gate, in each of its homes.
    Lifecycle,
    /// Pod annotations for Istio's bootstrap: statistics, drain times, EXIT_ON_ZERO for who wants to keep it.
    ProxyConfig,
    /// A VirtualService with retries, as a second line.
    #[value(name = "virtualservice")]
    VirtualService,
    /// A patch for a Job: its command waits for the sidecar, and ends it.
    Job,
    /// All that the policy has a use for, and a kustomization.
    All,
    /// Not rendered from a policy: the policy file's own JSON schema.
    Schema,
}

/// Who restores `x-forwarded-proto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// Envoy's own matchers where they come to the same and are sure to be there, else the module.
    Auto,
    /// Envoy's own matchers; what they cannot express is refused.
    Native,
    /// The module.
    Wasm,
}

/// Where a stop hook can live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Where {
    /// A patch for a Deployment: a container `istio-proxy` that Istio merges over its own.
    Pod,
    /// The same, where sidecars are init containers.
    NativeSidecar,
    /// `global.proxy.lifecycle` of Istio's values: every proxy, and instead of Istio's own hooks.
    HelmValues,
    /// Values of Istio's gateway chart.
    GatewayChart,
}

pub(super) fn run(command: &Render, printer: &Printer) -> Exit {
    if command.kind == What::Schema {
        printer.json(&format!("{:#}", Policy::schema()));
        return Exit::Fine;
    }
    if command.home.is_some() && command.kind != What::Lifecycle {
        printer.error(&"`--for` is for `render lifecycle`");
        return Exit::Usage;
    }
    let policy = match policy_of(command, printer) {
        Ok(policy) => policy,
        Err(exit) => return exit,
    };
    match render::render(kind_of(command, &policy), &policy, &|image| ask_registry(&command.registry, image, printer)) {
        Ok(rendered) => {
            rendered.warnings.iter().for_each(|warning| printer.warning(warning));
            deliver(command, &rendered, printer)
        }
        Err(problem) => {
            printer.error(&problem);
            Exit::Failed
        }
    }
}

fn policy_of(command: &Render, printer: &Printer) -> Result<Policy, Exit> {
    let overrides = Overrides {
        module: command.module.clone(),
        digest: command.digest.clone(),
        namespace: command.namespace.clone(),
        name: command.name.clone(),
        engine: command.engine.map(|by| match by {
            By::Auto => Engine::Auto,
            By::Native => Engine::Native,
            By::Wasm => Engine::Wasm,
        }),
    };
    let file = command.policy.as_deref();
    let text = policy_text(file, printer)?;
    policy(file, "the command line", Policy::read(&text, &overrides), printer)
}

fn kind_of(command: &Render, policy: &Policy) -> Kind {
    match command.kind {
        What::EnvoyFilter => Kind::EnvoyFilter,
        What::WasmPlugin => Kind::WasmPlugin,
        What::Envoy => Kind::Envoy,
        What::EnvoyGateway => Kind::EnvoyGateway,
        What::Lifecycle => Kind::Lifecycle(match command.home {
            Some(Where::Pod) => Home::Pod,
            Some(Where::NativeSidecar) => Home::NativeSidecar,
            Some(Where::HelmValues) => Home::HelmValues,
            Some(Where::GatewayChart) => Home::GatewayChart,
            None => render::home_of(&policy.placement).unwrap_or(Home::Pod),
        }),
        What::ProxyConfig => Kind::ProxyConfig,
        What::VirtualService => Kind::VirtualService,
        What::Job => Kind::Job,
        What::All | What::Schema => Kind::All,
    }
}

/// Which manifest a tag stands for at this moment.
fn ask_registry(args: &RegistryArgs, image: &str, printer: &Printer) -> Result<String, String> {
    let digest = || -> Result<Digest, Box<dyn Error>> {
        let reference: Reference = image.parse()?;
        let (options, sources) = (args.options(), args.sources()?);
        let registry = Registry::new(&reference.registry, &options, &sources, printer)?;
        Ok(registry.resolve(&reference)?.digest)
    };
    digest().map(|digest| digest.to_string()).map_err(|error| format!("{error}; `--digest sha256:…` renders without asking"))
}

fn deliver(command: &Render, rendered: &Rendered, printer: &Printer) -> Exit {
    if let Some(folder) = command.check.as_ref().or(command.diff.as_ref()) {
        return compare(command, folder, rendered, printer);
    }
    if command.output == Path::new("-") {
        return print(rendered, printer);
    }
    let written = output::write(&command.output, rendered);
    let stale = output::differences(&command.output, rendered, command.kind == What::All);
    match (written, stale) {
        (Ok(written), Ok(left)) => {
            written.iter().for_each(|name| printer.people(&format!("wrote {}", command.output.join(name).display())));
            left.iter().for_each(|difference| printer.warning(&words(difference)));
            Exit::Fine
        }
        (Err(trouble), _) | (_, Err(trouble)) => {
            printer.error(&trouble);
            Exit::Failed
        }
    }
}

/// One file. Of several some are no objects, and who pipes them to `kubectl apply` must not have them half applied.
fn print(rendered: &Rendered, printer: &Printer) -> Exit {
    if let [file] = rendered.files.as_slice() {
        printer.stdout_verbatim(&file.text);
        return Exit::Fine;
    }
    let names: Vec<&str> = rendered.files.iter().map(|file| file.name.as_str()).collect();
    printer.error(&format!(
        "these are several files, not all of them for `kubectl apply`: {}; name a folder: `--output DIR`",
        names.join(", ")
    ));
    Exit::Usage
}

fn compare(command: &Render, folder: &Path, rendered: &Rendered, printer: &Printer) -> Exit {
    match output::differences(folder, rendered, command.kind == What::All) {
        Ok(differences) if differences.is_empty() => Exit::Fine,
        Ok(differences) => {
            for difference in &differences {
                if let Difference::Changed(_, diff) = difference {
                    printer.data(diff);
                }
                printer.people(&words(difference));
            }
            if command.check.is_some() { Exit::Found } else { Exit::Fine }
        }
        Err(trouble) => {
            printer.error(&trouble);
            Exit::Failed
        }
    }
}

fn words(difference: &Difference) -> String {
    match difference {
        Difference::Missing(name) => format!("missing: {name}"),
        Difference::Changed(name, _) => format!("differs: {name}"),
        Difference::Stale(name) => format!("stale: {name} was rendered once and is no part of it any more"),
    }
}
