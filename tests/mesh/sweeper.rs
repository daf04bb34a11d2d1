//! Removes the cgroups of a run, which outlive its namespaces. A separate process waits for the
//! end of the run, also for its end by a signal.

use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use crate::role::ROLE;
use kit::wait::PATIENCE;
use kit::{Outcome, ensure};

const CGROUPS: &str = "/sys/fs/cgroup";

pub(crate) struct Sweeper {
    child: Child,
    cgroup: String,
}

impl Sweeper {
    pub(crate) fn start() -> Outcome<Self> {
        let cgroup = format!("laststream-mesh-{}", std::process::id());
        let mut command = Command::new(env::current_exe()?);
        // A separate process group, so that Ctrl-C does not end it.
        command.arg(&cgroup).env(ROLE, "sweeper").stdin(Stdio::piped()).process_group(0);
        Ok(Self { child: command.spawn()?, cgroup })
    }

    /// The name of the run's top cgroup, which is the same in each hierarchy.
    pub(crate) fn cgroup(&self) -> &str {
        &self.cgroup
    }

    /// Starts the removal, and waits for its end.
    pub(crate) fn sweep(mut self) -> Outcome {
        let status = self.child.wait()?; // closes its standard input, which starts the removal
        ensure!(status.success(), "cgroups named {} are left in {CGROUPS}", self.cgroup);
        Ok(())
    }
}

/// The main function of the process that removes the cgroups.
pub(crate) fn main() -> ExitCode {
    let Some(cgroup) = env::args().nth(1) else { return ExitCode::FAILURE };
    io::stdin().read_to_end(&mut Vec::new()).ok();
    // Containers take a moment to die with their namespace.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left: Vec<PathBuf> =
            cgroups(&cgroup).into_iter().filter(|folder| !remove(folder)).collect();
        if left.is_empty() {
            return ExitCode::SUCCESS;
        }
        if Instant::now() > deadline {
            return ExitCode::FAILURE;
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Cgroups of this name: in each hierarchy of version 1, and in the one of version 2.
fn cgroups(name: &str) -> Vec<PathBuf> {
    let hierarchies = folders(Path::new(CGROUPS));
    let all = hierarchies
        .iter()
        .map(|hierarchy| hierarchy.join(name))
        .chain([Path::new(CGROUPS).join(name)]);
    all.filter(|folder| folder.is_dir()).collect()
}

/// Removes a cgroup, the deepest ones first; true when it is gone. Cgroups with processes in them
/// stay.
fn remove(folder: &Path) -> bool {
    folders(folder).iter().for_each(|inner| {
        remove(inner);
    });
    fs::remove_dir(folder).is_ok()
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(of).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}
