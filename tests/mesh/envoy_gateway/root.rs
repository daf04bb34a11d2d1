//! The root folder of a container: the machine's system folders, and the files of its image and its
//! volumes. Programs whose configuration has absolute paths run there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::isolation::{folder, run_tool};
use kit::prelude::*;
use kit::process::guarded;

/// A root folder in the tmpfs, which disappears with the namespaces.
pub(crate) struct Root(PathBuf);

impl Root {
    pub(crate) fn new(name: &str) -> Outcome<Self> {
        let root = Self(folder(name)?);
        root.folder("/tmp")?;
        for shared in ["/proc", "/dev", "/etc", "/usr", "/lib", "/lib64"] {
            if Path::new(shared).exists() {
                root.folder(shared)?;
                root.mount("--rbind", Path::new(shared), shared)?; // with /etc/hosts
            }
        }
        Ok(root)
    }

    /// The path on this machine of a path in the container.
    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        self.0.join(inside.trim_start_matches('/'))
    }

    pub(crate) fn folder(&self, inside: &str) -> Outcome<PathBuf> {
        let path = self.path(inside);
        fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// Mounts a file or a folder of this machine over one of the same kind in the container.
    pub(crate) fn bind(&self, from: &Path, inside: &str) -> Outcome {
        self.mount("--bind", from, inside)
    }

    fn mount(&self, how: &str, from: &Path, inside: &str) -> Outcome {
        let to = self.path(inside);
        let [from, to] = [from, &to].map(|path| path.to_str().context("a path in UTF-8"));
        run_tool("mount", &[how, from?, to?])
    }

    /// Mounts a program of the machine at a path of the container.
    pub(crate) fn program(&self, from: &Path, inside: &str) -> Outcome {
        fs::write(self.path(inside), "")?;
        self.bind(from, inside)
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = guarded("chroot");
        command.arg(&self.0).arg(program).env_remove("TMPDIR").env("HOME", "/tmp");
        command
    }
}
