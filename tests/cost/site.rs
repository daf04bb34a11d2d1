//! What is measured, and with what: an Envoy, the module that the command line carries, a folder.

use std::path::PathBuf;

use kit::prelude::*;
use laststream::local::envoy::{self, Version, Wanted};
use laststream::progress::Silent;
use tempfile::TempDir;

pub(crate) struct Site {
    pub(crate) envoy: PathBuf,
    pub(crate) version: Version,
    pub(crate) module: PathBuf,
    _folder: TempDir,
}

impl Site {
    pub(crate) fn find(version: Version) -> Outcome<Self> {
        let found = envoy::find_or_get(&Wanted::version(version), &Silent).map_err(Error::msg)?;
        let bytes = laststream::module::builtin()
            .map_err(|reason| Error::msg(format!("there is no module to measure: {reason}")))?;
        let folder = tempfile::Builder::new().prefix("cost-").tempdir().context("a folder")?;
        let module = folder.path().join("laststream.wasm");
        std::fs::write(&module, bytes).context("the module as a file")?;
        Ok(Self { envoy: found.binary, version: found.version, module, _folder: folder })
    }
}
