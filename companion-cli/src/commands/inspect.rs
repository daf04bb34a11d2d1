//! `laststream inspect`

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use laststream_base::causes::Context as _;
use laststream_base::visible;
use laststream_module::analysis::Module;
use laststream_module::inspect::{self, Inspection};
use laststream_oci::image::{DOCKER_HUB, NotAReference, Reference};
use laststream_oci::registry::Registry;

use crate::args::registry::RegistryArgs;
use crate::commands::{Ended, Exit, Failure, Output, Printer};
use crate::input;

/// Shows which module an image or a file holds, in which version, whether Istio and Envoy Gateway
/// can load it, and where to write its checksums.
///
/// The exit code is 1 if they cannot load it; the output shows the reason.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  laststream inspect registry.example.com/team/laststream:1.0.0\n  \
    laststream inspect -o json laststream.wasm"
)]
pub(crate) struct Inspect {
    /// An image in a registry, or a module file; `-` for standard input.
    #[arg(value_name = "REF|FILE")]
    subject: PathBuf,
    /// The format of the result. `json` prints one object: `image` (`digest`, `media_type`),
    /// `module` (`size`, `sha256`, `kind`, `version`, `configuration`), `because`, and `checksums`
    /// (`of`, `sha256`, `belongs`).
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn run(command: &Inspect, printer: &Printer) -> Ended {
    let inspection = look(command, printer)?;
    printer.result(command.output, &inspection, &text(&inspection));
    Ok(if inspection.because.is_empty() { Exit::Fine } else { Exit::Negative })
}

/// Files on this machine take precedence. `oci://`, a registry, a tag or a digest distinguishes a
/// reference from a missing file.
fn look(command: &Inspect, printer: &Printer) -> Result<Inspection, Failure> {
    let Some(reference) = remote(&command.subject) else {
        return Ok(inspect::module(&input::read(&command.subject, input::LARGEST_MODULE)?));
    };
    let subject = format!("`{}`", command.subject.display());
    let reference = &reference.context(&subject)?;
    let (options, sources) = (command.registry.options(), command.registry.sources()?);
    let registry = Registry::new(&reference.registry, &options, &sources, printer);
    let registry = registry.context(&subject)?;
    Ok(inspect::image(&registry, reference).context(subject)?)
}

/// The subject as a reference, if it cannot be a file.
fn remote(subject: &Path) -> Option<Result<Reference, String>> {
    let text = subject.to_str().filter(|text| *text != "-" && !subject.exists())?;
    let is_path =
        text.starts_with(['.', '/', '~']) || subject.extension().is_some_and(|end| end == "wasm");
    (text.starts_with("oci://") || !is_path).then(|| {
        let reference: Reference = text
            .parse()
            .map_err(|error: NotAReference| format!("there is no such file, and it {error}"))?;
        if is_bare_name(text, &reference) {
            let way_out = format!("for an image on Docker Hub write `{text}:TAG`");
            return Err(format!("there is no such file; {way_out}"));
        }
        Ok(reference)
    })
}

/// Whether the text could just as well be a file: it has no registry, tag or digest.
fn is_bare_name(text: &str, reference: &Reference) -> bool {
    let host = text.split_once('/').map_or("", |(host, _)| host);
    let names_registry = text.starts_with("oci://") || host.contains('.');
    let names_version = reference.tag.is_some() || reference.digest.is_some();
    reference.registry == DOCKER_HUB && !names_registry && !names_version
}

fn text(inspection: &Inspection) -> String {
    let mut text = String::new();
    if let Some(image) = &inspection.image {
        text.push_str("image\n");
        line(&mut text, format_args!("digest   {}", image.digest));
        line(&mut text, format_args!("type     {}", image.media_type));
    }
    if let Some(module) = &inspection.module {
        of_module(&mut text, module);
    }
    text.push_str("Istio and Envoy Gateway\n");
    if inspection.because.is_empty() {
        line(&mut text, format_args!("can load it"));
    }
    for because in &inspection.because {
        line(&mut text, format_args!("cannot load it, because {because}"));
    }
    text.push_str("checksums\n");
    for checksum in &inspection.checksums {
        line(&mut text, format_args!("{:<8} {}", checksum.of, checksum.sha256));
        line(&mut text, format_args!("         {}", checksum.belongs));
    }
    text
}

fn of_module(text: &mut String, module: &Module) {
    text.push_str("module\n");
    line(text, format_args!("what     {}", module.kind));
    if let (Some(version), Some(configuration)) = (&module.version, module.configuration) {
        line(text, format_args!("version  {version}, configuration {configuration}"));
    }
    line(text, format_args!("size     {} bytes", module.size));
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    let _ = writeln!(text, "  {}", visible::line(&line.to_string())); // writing cannot fail
}
