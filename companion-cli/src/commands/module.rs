//! `laststream module`

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use clap::Args;
use laststream_base::causes::Context as _;
use laststream_base::files::write_atomically;
use laststream_module::analysis::analyse;
use laststream_module::{builtin, builtin_frames};

use crate::commands::{Ended, Exit, Printer, misused};

/// Writes the module of this release, which is inside this program.
///
/// An Envoy without a mesh reads it as a file. Istio and Envoy Gateway fetch it as an image:
/// `laststream push`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  laststream module > laststream.wasm\n  \
    laststream module --file /etc/envoy/laststream.wasm\n  \
    laststream module --frames > laststream_frames.wasm")]
pub(crate) struct Module {
    /// The frame filter, for WebSockets that end with a close frame.
    #[arg(long)]
    frames: bool,
    /// The file to write, in place of standard output.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

const TO_A_TERMINAL: &str = "the module is binary, and standard output is a terminal: write \
    `laststream module > laststream.wasm`, or give `--file FILE`";

pub(crate) fn run(command: &Module, printer: &Printer) -> Ended {
    if command.file.is_none() && io::stdout().is_terminal() {
        return Err(misused(TO_A_TERMINAL));
    }
    let module = if command.frames { builtin_frames() } else { builtin() };
    let module = module.context("this laststream carries no module")?;
    let Some(file) = &command.file else {
        printer.stdout_bytes(module);
        return Ok(Exit::Fine);
    };
    let name = file.display();
    write_atomically(file, module).context(format_args!("`{name}` cannot be written"))?;
    let analysis = analyse(module)?;
    printer.status_line(&format!("wrote {name}: {}, sha256 {}", analysis.kind, analysis.sha256));
    Ok(Exit::Fine)
}
