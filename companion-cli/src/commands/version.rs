//! `laststream version`

use clap::Args;
use laststream::module::analysis::{Module, analyse};
use laststream::module::builtin;
use laststream_filter::identity::CONFIGURATION;
use serde_json::{Value, json};

use crate::cli::Output;
use crate::commands::Exit;
use crate::printer::Printer;

/// Tells the versions of this program and of the module inside it, with its checksum.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  laststream version\n  laststream version -o json")]
pub(crate) struct Version {
    /// How the result is written.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(version: &Version, printer: &Printer) -> Exit {
    let module = builtin().map_err(str::to_owned).and_then(analyse);
    printer.data(&match version.output {
        Output::Json => format!("{:#}", as_json(&module)),
        Output::Text => text(&module),
    });
    Exit::Fine
}

fn as_json(module: &Result<Module, String>) -> Value {
    let module = match module {
        Ok(module) => json!({
            "version": module.version,
            "abi": module.abi,
            "configuration": module.configuration,
            "size": module.size,
            "sha256": module.sha256,
        }),
        Err(reason) => json!({ "missing": reason }),
    };
    json!({ "version": env!("CARGO_PKG_VERSION"), "configuration": CONFIGURATION, "module": module })
}

fn text(module: &Result<Module, String>) -> String {
    let own = format!("laststream     {}\nconfiguration  {CONFIGURATION}", env!("CARGO_PKG_VERSION"));
    let module = match module {
        Ok(module) => format!(
            "module         {}, proxy-wasm ABI {}, configuration {}, {} bytes\nmodule sha256  {}",
            module.version.as_deref().unwrap_or("?"),
            module.abi.map_or("?".to_owned(), |abi| abi.to_string()),
            module.configuration.map_or("?".to_owned(), |version| version.to_string()),
            module.size,
            module.sha256
        ),
        Err(reason) => format!("module         none: {reason}"),
    };
    format!("{own}\n{module}")
}
