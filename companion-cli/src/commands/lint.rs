//! `laststream lint …`

use std::io;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use laststream::lint::crds::{Definition, Definitions};
use laststream::lint::{self, Assume, Rule, Severity, output};

use crate::commands::exit::Exit;
use crate::commands::printer::Printer;

/// Checks manifests for what loses requests: EnvoyFilters, pods, Helm values, plain Envoys.
///
/// All files are looked at together: names that collide, grace periods that are too short for a
/// gate in another file. Folders are searched for .yaml, .yml and .json. A comment `#
/// laststream-lint: ignore=LS206` ignores a rule on its line, or on the next one when it stands
/// alone; `ignore-file=` in the whole file.
///
/// Ends with 0 when nothing was found that counts (see --fail-on), 1 when something was, 2 when a
/// file could not be read, 64 when the arguments make no sense.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Lint {
    /// Files and folders; `-` for standard input.
    #[arg(value_name = "FILE", required_unless_present_any = ["list", "explain"])]
    files: Vec<PathBuf>,
    /// How findings are written.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// From which severity on findings end with 1.
    #[arg(long, value_enum, default_value_t)]
    fail_on: FailOn,
    /// Leaves out a rule; several with commas, or once more.
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = rule)]
    ignore: Vec<&'static Rule>,
    /// The mesh's version, for what differs between them.
    #[arg(long, value_name = "VERSION", value_parser = istio_version)]
    istio: Option<(u32, u32)>,
    /// CRDs that objects are checked against, instead of the built-in ones of their kinds; several
    /// with commas, or once more.
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    crds: Vec<PathBuf>,
    /// Explains a rule.
    #[arg(long, value_name = "CODE", value_parser = rule, conflicts_with_all = ["files", "list"])]
    explain: Option<&'static Rule>,
    /// Lists all rules.
    #[arg(long, conflicts_with = "files")]
    list: bool,
}

const EXAMPLES: &str = "Examples:
  laststream lint mesh/
  kubectl kustomize overlays/prod | laststream lint --istio 1.29 -
  laststream lint --output sarif mesh/ > laststream.sarif
  laststream lint --explain LS204";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
    /// For code hosts.
    Sarif,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum FailOn {
    Info,
    #[default]
    Warning,
    Error,
}

impl FailOn {
    fn severity(self) -> Severity {
        match self {
            Self::Info => Severity::Info,
            Self::Warning => Severity::Warning,
            Self::Error => Severity::Error,
        }
    }
}

fn rule(code: &str) -> Result<&'static Rule, String> {
    lint::rules()
        .find(|rule| rule.code.eq_ignore_ascii_case(code))
        .ok_or_else(|| "there is no such rule; `laststream lint --list` names them".into())
}

fn istio_version(text: &str) -> Result<(u32, u32), String> {
    let mut parts = text.trim_start_matches('v').split('.').map(str::parse);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
        _ => Err("write major and minor, such as 1.29".into()),
    }
}

pub(super) fn run(lint: &Lint, printer: &Printer) -> Exit {
    if let Some(rule) = lint.explain {
        printer.data(&output::explanation(rule));
        return Exit::Fine;
    }
    if lint.list {
        if lint.output == Format::Text {
            printer.data(&output::list())
        } else {
            printer.json(&output::list_json())
        }
        return Exit::Fine;
    }
    let sources = match lint::gather(&lint.files, &mut io::stdin().lock()) {
        Ok(sources) => sources,
        Err(error) => {
            printer.error(&error);
            return Exit::Failed;
        }
    };
    let crds = match read_crds(&lint.crds) {
        Ok(crds) => crds,
        Err(message) => {
            printer.error(&message);
            return Exit::Failed;
        }
    };
    let files = sources.len();
    let mut findings = lint::lint(sources, Assume { istio: lint.istio, crds });
    findings.retain(|finding| !lint.ignore.contains(&finding.rule));
    match lint.output {
        Format::Text if findings.is_empty() => {}
        Format::Text => printer.coloured(&output::text(&findings)),
        Format::Json => printer.json(&output::json(&findings, files)),
        Format::Sarif => {
            printer.json(&output::sarif(&findings, std::env::current_dir().ok().as_deref()))
        }
    }
    printer.people(&output::summary(&findings, files));
    let counts = findings.iter().any(|finding| finding.rule.severity >= lint.fail_on.severity());
    if counts { Exit::Found } else { Exit::Fine }
}

fn read_crds(files: &[PathBuf]) -> Result<Definitions, String> {
    let mut definitions = Vec::new();
    for file in files {
        let sources = lint::gather(std::slice::from_ref(file), &mut io::stdin().lock());
        for source in sources.map_err(|error| error.to_string())? {
            let text = source.text.unwrap_or_default();
            let crds = Definition::of_crds(&source.name, &text);
            definitions.extend(crds.map_err(|error| error.to_string())?);
        }
    }
    Ok(Definitions::from_files(definitions))
}
