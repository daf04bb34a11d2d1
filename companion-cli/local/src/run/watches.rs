//! The policy and the module, made anew when their files change.

use std::path::Path;

use super::module::ModuleSource;
use super::policy;
use super::watch::{ChangeDetector, Watch};
use laststream_base::progress::Progress;
use laststream_policy::{Policy, PolicyError};

/// The files that are watched while Envoy runs; none of them by default.
#[derive(Default)]
pub struct Watches {
    policy: Option<Watch>,
    has_secret: bool,
    module: Option<Watch>,
}

impl Watches {
    /// Watches the file of the policy, whose text so far is `text`, and the files of the module,
    /// which so far is `bytes`. The progress of each compilation goes to a printer of its own.
    pub fn new(
        policy: Option<(&Path, Vec<u8>)>,
        has_secret: bool,
        module: Option<(ChangeDetector, ModuleSource, Vec<u8>)>,
        progress: impl Progress + Send + 'static,
    ) -> Self {
        let module = module.map(|(changes, source, bytes)| {
            Watch::new(changes, bytes, move || source.bytes(&progress))
        });
        let policy = policy.map(|(file, text)| Watch::policy(file.to_owned(), text));
        Self { policy, has_secret, module }
    }

    /// The policy after a change. The outer error says why its file cannot be read.
    pub fn changed_policy(&mut self) -> Option<Result<Result<Policy, PolicyError>, String>> {
        let text = self.policy.as_mut()?.changed()?;
        Some(text.map(|text| policy::read_file(&text, self.has_secret)))
    }

    /// The module after a change.
    pub fn changed_module(&mut self) -> Option<Result<Vec<u8>, String>> {
        self.module.as_mut()?.changed()
    }
}
