//! `laststream version`

use clap::Args;
use laststream_base::digest::Digest;
use laststream_filter::identity::CONFIGURATION;
use laststream_module::analysis::{Module, analyse};
use laststream_module::{builtin, builtin_frames};
use laststream_oci::image::Image;
use serde_json::{Value, json};

use crate::commands::{Ended, Exit, Output, Printer};

/// Prints the versions of this program and of its built-in modules, with checksums.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  laststream version\n  laststream version -o json")]
pub(crate) struct Version {
    /// The format of the result. `json` prints one object: `version`, `configuration`, and `module`
    /// and `frames` with their `version`, `size`, `sha256` and `digest`.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn run(version: &Version, printer: &Printer) -> Ended {
    let (module, frames) = (known(builtin()), known(builtin_frames()));
    printer.result(version.output, &as_json(&module, &frames), &text(&module, &frames));
    Ok(Exit::Fine)
}

/// A built-in module, and the digest of its image if it is pushed without further options.
struct BuiltinModule {
    module: Module,
    digest: Digest,
}

/// A built-in module, or why there is none.
type Known = Result<BuiltinModule, String>;

fn known(bytes: Result<&[u8], &str>) -> Known {
    let bytes = bytes?;
    let module = analyse(bytes)?;
    let image = Image::of(bytes, module.kind.annotations()).map_err(|error| error.to_string())?;
    Ok(BuiltinModule { module, digest: image.digest })
}

fn as_json(module: &Known, frames: &Known) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "configuration": CONFIGURATION,
        "module": module_json(module),
        "frames": module_json(frames),
    })
}

fn module_json(module: &Known) -> Value {
    match module {
        Ok(BuiltinModule { module, digest }) => json!({
            "version": module.version,
            "kind": module.kind,
            "configuration": module.configuration,
            "size": module.size,
            "sha256": module.sha256,
            "digest": digest,
        }),
        Err(reason) => json!({ "missing": reason }),
    }
}

fn text(module: &Known, frames: &Known) -> String {
    let program =
        format!("laststream     {}\nconfiguration  {CONFIGURATION}", env!("CARGO_PKG_VERSION"));
    let module = module_text("module", module);
    format!("{program}\n{module}\n{}", module_text("frames", frames))
}

fn module_text(name: &str, module: &Known) -> String {
    match module {
        Ok(BuiltinModule { module, digest }) => format!(
            "{name}         {}, configuration {}, {} bytes\n{name} sha256  \
                {}\n{:13}  {digest}",
            module.version.as_deref().unwrap_or("?"),
            module.configuration.map_or("?".to_owned(), |version| version.to_string()),
            module.size,
            module.sha256,
            if name == "module" { "image digest" } else { "frames digest" },
        ),
        Err(reason) => format!("{name}         none: {reason}"),
    }
}
