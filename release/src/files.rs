//! The names of the files, and the folder with their checksums.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::{Digest, Platform, VERSION};
use laststream_base::causes::Context as _;

/// The checksums of all other files, as `sha256sum --check` reads them.
pub const CHECKSUMS: &str = "SHA256SUMS";
/// The manifest of the kubectl plugin; krew wants the plugin's name.
pub const PLUGIN: &str = "laststream.yaml";
/// The formula of Homebrew, which wants the program's name.
pub const FORMULA: &str = "laststream.rb";

/// The archive with the program for a platform.
#[must_use]
pub fn program_archive(platform: Platform) -> String {
    format!("laststream-{VERSION}-{}.tar.gz", platform.target())
}

/// The command line as an image, as an OCI layout in an archive.
#[must_use]
pub fn command_image() -> String {
    format!("laststream-{VERSION}-image.tar")
}

/// The program for stop hooks and Jobs as an image, as an OCI layout in an archive.
#[must_use]
pub fn hook_image() -> String {
    format!("laststream-{VERSION}-hook-image.tar")
}

/// The module as an image, as an OCI layout in an archive.
#[must_use]
pub fn module_image() -> String {
    format!("laststream-{VERSION}-module-image.tar")
}

/// The module of the frame filter as an image, as an OCI layout in an archive.
#[must_use]
pub fn frames_image() -> String {
    format!("laststream-{VERSION}-frames-image.tar")
}

/// The archive with completions and manual pages.
#[must_use]
pub fn shell_archive() -> String {
    format!("laststream-{VERSION}-completions-and-man.tar.gz")
}

/// The bill of materials.
#[must_use]
pub fn sbom_file() -> String {
    format!("laststream-{VERSION}.cdx.json")
}

/// The address of a file.
pub(crate) fn download(file: &str) -> String {
    format!("{}/releases/download/v{VERSION}/{file}", env!("CARGO_PKG_REPOSITORY"))
}

/// Files by name.
#[derive(Debug, Default)]
pub(crate) struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    pub(crate) fn add(&mut self, name: String, bytes: Vec<u8>) {
        self.0.insert(name, bytes);
    }

    pub(crate) fn digest(&self, name: &str) -> Option<Digest> {
        self.0.get(name).map(|bytes| Digest::of(bytes))
    }

    /// Writes the files, and the checksums last.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), String> {
        let message = |name: &str| format!("cannot write `{}`", folder.join(name).display());
        fs::create_dir_all(folder).context(message(""))?;
        if fs::read_dir(folder).context(message(""))?.next().is_some() {
            return Err(format!(
                "`{}` is not empty: remove it, or name another folder",
                folder.display()
            ));
        }
        for (name, bytes) in &self.0 {
            fs::write(folder.join(name), bytes).context(message(name))?;
        }
        fs::write(folder.join(CHECKSUMS), self.checksums()).context(message(CHECKSUMS))
    }

    fn checksums(&self) -> String {
        self.0
            .iter()
            .map(|(name, bytes)| format!("{}  {name}\n", Digest::of(bytes).hex()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_written_and_a_used_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::default();
        files.add("b".to_owned(), Vec::new());
        files.add("a".to_owned(), b"abc".to_vec());
        files.write(folder.path()).unwrap();
        assert_eq!(
            fs::read_to_string(folder.path().join(CHECKSUMS)).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n\
             e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n"
        );
        assert!(files.write(folder.path()).unwrap_err().contains("is not empty"));
    }
}
