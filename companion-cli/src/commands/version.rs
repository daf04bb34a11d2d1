//! `laststream version`

use clap::Args;
use laststream::digest::Digest;
use laststream::module::analysis::{Module, analyse};
use laststream::module::builtin;
use laststream::oci::image::{Image, standard_annotations};
use laststream_filter::identity::CONFIGURATION;
use serde_json::{Value, json};

use crate::commands::exit::Exit;
use crate::commands::output::Output;
use crate::commands::printer::Printer;

/// Prints the versions of this program and of its built-in module, with checksums.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  laststream version\n  laststream version -o json")]
pub(crate) struct Version {
    /// The format of the result.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(version: &Version, printer: &Printer) -> Exit {
    let module = builtin().map_err(str::to_owned).and_then(known);
    match version.output {
        Output::Json => printer.json(&format!("{:#}", as_json(&module))),
        Output::Text => printer.stdout(&text(&module)),
    }
    Exit::Fine
}

/// The module inside, and the digest that it gets where it is pushed without further options.
struct BuiltinModule {
    module: Module,
    digest: Digest,
}

fn known(bytes: &[u8]) -> Result<BuiltinModule, String> {
    let image = Image::of(bytes, standard_annotations()).map_err(|error| error.to_string())?;
    Ok(BuiltinModule { module: analyse(bytes)?, digest: image.digest })
}

fn as_json(module: &Result<BuiltinModule, String>) -> Value {
    let module = match module {
        Ok(BuiltinModule { module, digest }) => json!({
            "version": module.version,
            "abi": module.abi,
            "configuration": module.configuration,
            "size": module.size,
            "sha256": module.sha256,
            "digest": digest,
        }),
        Err(reason) => json!({ "missing": reason }),
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "configuration": CONFIGURATION,
        "module": module,
    })
}

fn text(module: &Result<BuiltinModule, String>) -> String {
    let own =
        format!("laststream     {}\nconfiguration  {CONFIGURATION}", env!("CARGO_PKG_VERSION"));
    let module = match module {
        Ok(BuiltinModule { module, digest }) => format!(
            "module         {}, proxy-wasm ABI {}, configuration {}, {} bytes\nmodule \
                sha256  {}\nimage digest   {digest}",
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
