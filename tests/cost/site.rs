//! The programs and files of a measurement: an Envoy, the modules that the command line carries, a
//! folder.

use std::path::PathBuf;

use kit::prelude::*;
use laststream_base::progress::Silent;
use laststream_local::envoy::{self, Version, Wanted};
use tempfile::TempDir;

pub(crate) struct Site {
    pub(crate) envoy: PathBuf,
    pub(crate) version: Version,
    pub(crate) module: PathBuf,
    /// The module of the frame filter.
    pub(crate) frames: PathBuf,
    _folder: TempDir,
}

impl Site {
    pub(crate) fn find(version: Version) -> Outcome<Self> {
        let found = envoy::find_or_get(&Wanted::version(version), &Silent).map_err(Error::msg)?;
        let folder = tempfile::Builder::new().prefix("cost-").tempdir().context("a folder")?;
        let write = |name: &str, bytes: Result<&[u8], &str>| {
            let bytes = bytes
                .map_err(|reason| Error::msg(format!("there is no module to measure: {reason}")))?;
            let file = folder.path().join(name);
            std::fs::write(&file, bytes).context("a module as a file")?;
            Ok::<PathBuf, Error>(file)
        };
        let module = write("laststream.wasm", laststream_module::builtin())?;
        let frames = write("laststream_frames.wasm", laststream_module::builtin_frames())?;
        let (envoy, version) = (found.binary, found.version);
        Ok(Self { envoy, version, module, frames, _folder: folder })
    }
}
