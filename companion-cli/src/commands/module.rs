//! `laststream module`

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use clap::Args;
use laststream_base::files::write_atomically;
use laststream_module::analysis::analyse;
use laststream_module::{builtin, builtin_frames};

use crate::commands::exit::Exit;
use crate::commands::printer::Printer;

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

pub(super) fn run(command: &Module, printer: &Printer) -> Result<Exit, Exit> {
    if command.file.is_none() && io::stdout().is_terminal() {
        return Err(printer.misused(&TO_A_TERMINAL));
    }
    let module = if command.frames { builtin_frames() } else { builtin() };
    let module = module.map_err(|reason| {
        printer.failed(&format!("this laststream carries no module: {reason}"))
    })?;
    let Some(file) = &command.file else {
        printer.stdout_bytes(module);
        return Ok(Exit::Fine);
    };
    let name = file.display();
    write_atomically(file, module)
        .map_err(|error| printer.failed(&format!("`{name}` cannot be written: {error}")))?;
    let found = analyse(module).map_err(|problem| printer.failed(&problem))?;
    printer.status_line(&format!("wrote {name}: {}, sha256 {}", found.kind, found.sha256));
    Ok(Exit::Fine)
}
