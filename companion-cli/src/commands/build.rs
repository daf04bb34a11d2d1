//! `laststream build`

use std::path::PathBuf;

use clap::Args;
use laststream_base::env_vars::{self, LASTSTREAM_OFFLINE};
use laststream_module::checkout;
use laststream_module::make::{BuiltModule, Make};

use crate::commands::{Ended, Exit, Output, Printer};

/// Compiles the module from a checkout of the sources, checks it, and writes it to a file.
///
/// The build is reproducible: the same sources and the same compiler give the same bytes on every
/// machine. You do not need this command for the module of this release: this program carries it,
/// the other commands use it by default, and `laststream module` writes it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  laststream build\n  laststream build --source ~/laststream --file \
        plugin.wasm\n  \
    laststream build --wasm-opt -o json"
)]
pub(crate) struct Build {
    /// The checkout. The default is the one that contains the current folder.
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
    /// The file to write.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "laststream.wasm",
        default_value_if("frames", "true", "laststream_frames.wasm")
    )]
    file: PathBuf,
    /// Compiles the module of the frame filter, for WebSockets that end with a close frame.
    #[arg(long)]
    frames: bool,
    /// Makes the module smaller with wasm-opt. It must be installed.
    #[arg(long)]
    wasm_opt: bool,
    /// Does not add the WebAssembly target to the Rust toolchain. If it is missing, the build
    /// fails.
    #[arg(long)]
    no_install: bool,
    /// The format of the result. `json` prints one object: `path`, `size`, `sha256`, `version`,
    /// `compiler` and `wasm_opt`.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn run(build: &Build, printer: &Printer) -> Ended {
    let source = source(build.source.clone())?;
    let offline = env_vars::is_on(LASTSTREAM_OFFLINE, &env_vars::of_process);
    let make = Make {
        source,
        output: build.file.clone(),
        target_dir: None,
        frames: build.frames,
        optimise: build.wasm_opt,
        may_install: !(build.no_install || offline),
        offline,
    };
    let module = make.run(printer)?;
    printer.result(build.output, &module, &text(&module));
    Ok(Exit::Fine)
}

fn source(named: Option<PathBuf>) -> Result<PathBuf, String> {
    let builtin = "the module of this release needs no compiling: `laststream module > \
        laststream.wasm` writes it";
    match named {
        Some(folder) if checkout::is_checkout(&folder) => {
            std::path::absolute(&folder).map_err(|error| format!("`{}`: {error}", folder.display()))
        }
        Some(folder) => Err(format!(
            "`{}` is no checkout of laststream: it has no `filter/Cargo.toml` of the project; \
                {builtin}",
            folder.display()
        )),
        None => {
            let here =
                std::env::current_dir().map_err(|error| format!("the current folder: {error}"))?;
            checkout::around(&here).ok_or_else(|| {
                format!(
                    "neither `{}` nor a folder above it is a checkout of laststream: name one with \
                        `--source DIR`; {builtin}",
                    here.display()
                )
            })
        }
    }
}

fn text(made: &BuiltModule) -> String {
    let mut lines = vec![
        format!("path:     {}", made.path.display()),
        format!("size:     {} bytes", made.size),
        format!("sha256:   {}", made.sha256),
        format!("version:  {}", made.version),
        format!("compiler: {}", made.compiler),
    ];
    lines.extend(made.wasm_opt.iter().map(|version| format!("wasm-opt: {version}")));
    lines.join("\n")
}
