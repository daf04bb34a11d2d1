//! The source of the module that runs here, and the check that Envoy can load it.

use std::path::PathBuf;
use std::sync::Arc;

use super::folder::at;
use laststream_base::causes::Context as _;
use laststream_base::children::Scratch;
use laststream_base::env_vars::{self, LASTSTREAM_OFFLINE};
use laststream_base::foreign;
use laststream_base::progress::Progress;
use laststream_module::analysis::analyse;
use laststream_module::inspect::MOST;
use laststream_module::make::Make;
use laststream_module::{builtin, checkout};

#[derive(Debug, Clone)]
pub enum ModuleSource {
    /// The module in this program.
    Builtin,
    File(PathBuf),
    Checkout(Checkout),
}

#[derive(Debug, Clone)]
pub struct Checkout {
    pub folder: PathBuf,
    /// Cargo's files: after a change, only what depends on it is compiled again.
    target_dir: Arc<Scratch>,
}

impl ModuleSource {
    /// Reads `builtin`, the path of a file, or the folder of a checkout.
    pub fn read(text: &str) -> Result<Self, String> {
        if text == "builtin" {
            return Ok(Self::Builtin);
        }
        let path = std::path::absolute(text).context(format_args!("`{text}`"))?;
        if checkout::is_checkout(&path) {
            Checkout::new(path).map(Self::Checkout)
        } else if path.is_file() {
            Ok(Self::File(path))
        } else if path.is_dir() {
            Err(format!(
                "`{text}` is no checkout of laststream: it has no `filter/Cargo.toml` of the \
                    project"
            ))
        } else {
            Err(format!("`{text}` is neither `builtin` nor a file nor a folder that is there"))
        }
    }

    /// The module's bytes, which Envoy can load. Compiling takes a while.
    pub fn bytes(&self, progress: &dyn Progress) -> Result<Vec<u8>, String> {
        match self {
            Self::Builtin => Ok(builtin().context("there is no module in this program")?.to_vec()),
            Self::File(path) => {
                let bytes = foreign::read_named(path, MOST).context(at(path))?;
                analyse(&bytes).map_err(|why| format!("{} {why}", at(path)))?;
                Ok(bytes)
            }
            Self::Checkout(checkout) => checkout.compiled(progress),
        }
    }
}

impl Checkout {
    pub fn new(folder: PathBuf) -> Result<Self, String> {
        let target_dir = Arc::new(scratch()?);
        Ok(Self { folder, target_dir })
    }

    fn compiled(&self, progress: &dyn Progress) -> Result<Vec<u8>, String> {
        let scratch = scratch()?;
        let output = scratch.path().join("laststream.wasm");
        let offline = env_vars::is_on(LASTSTREAM_OFFLINE, &env_vars::of_process);
        let make = Make {
            source: self.folder.clone(),
            output: output.clone(),
            target_dir: Some(self.target_dir.path().to_owned()),
            frames: false,
            optimise: false,
            may_install: !offline,
            offline,
        };
        make.run(progress)?;
        foreign::read_named(&output, MOST).context(at(&output))
    }
}

fn scratch() -> Result<Scratch, String> {
    Scratch::new(tempfile::tempdir).context(at(&std::env::temp_dir()))
}
