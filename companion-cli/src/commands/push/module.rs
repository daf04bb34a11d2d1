//! The module that is pushed.

use laststream_module::analysis::{ModuleKind, analyse};
use laststream_module::{builtin, builtin_frames};

use super::Push;
use crate::commands::{Exit, Failure};
use crate::input::{LARGEST_MODULE, read};

pub(super) const BUILTIN: &str = "builtin";
const BUILTIN_FRAMES: &str = "builtin-frames";

impl Push {
    /// The module, and which one it is.
    pub(super) fn load(&self) -> Result<(Vec<u8>, ModuleKind), Failure> {
        let carried = match self.module.to_str() {
            Some(BUILTIN) => Some(builtin()),
            Some(BUILTIN_FRAMES) => Some(builtin_frames()),
            _ => None,
        };
        if let Some(module) = carried {
            let missing = |reason| {
                format!(
                    "this laststream carries no module ({reason}): name one with `--module FILE`"
                )
            };
            let module = module.map_err(missing)?;
            return Ok((module.to_vec(), analyse(module)?.kind));
        }
        let module = read(&self.module, LARGEST_MODULE)?;
        let kind = analyse(&module).and_then(|module| match module.kind {
            ModuleKind::Foreign => Err("is a module that is not of laststream".to_owned()),
            kind => Ok(kind),
        });
        match kind {
            Ok(kind) => Ok((module, kind)),
            Err(problem) => {
                let text = format!("`{}` {problem}", self.module.display());
                Err(Failure { exit: Exit::Negative, ..text.into() })
            }
        }
    }
}
