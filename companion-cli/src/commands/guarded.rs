//! `laststream guarded`: for this program's own use, and hidden in its help.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Args;

use crate::commands::{Ended, Exit};

/// Replaces itself with a command that ends when its parent ends.
///
/// Only Linux supports this. Elsewhere the command just runs.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  laststream guarded --parent \"$$\" sleep 60")]
pub(crate) struct Guarded {
    /// The process id of the parent: if it has gone already, nothing is started.
    #[arg(long, value_name = "PID")]
    parent: i32,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

pub(crate) fn run(guarded: &Guarded) -> Ended {
    arm(guarded.parent)?;
    let Some((program, arguments)) = guarded.command.split_first() else {
        return Ok(Exit::Usage);
    };
    // exec keeps the process, and with it the requested death signal
    let error = Command::new(program).args(arguments).exec();
    Err(format!("cannot start `{}`: {error}", program.display()).into())
}

#[cfg(target_os = "linux")]
fn arm(parent: i32) -> Result<(), String> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("cannot ask for the parent's death signal: {error}"))?;
    let now = getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    if now == parent { Ok(()) } else { Err(format!("the parent {parent} has gone")) }
}

#[cfg(not(target_os = "linux"))]
fn arm(_parent: i32) -> Result<(), String> {
    Ok(())
}
