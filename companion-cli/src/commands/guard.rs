//! `laststream guard -- …`: what `run` starts its Envoy with. Not for people, so it is hidden.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Args;

use crate::commands::Exit;
use crate::printer::Printer;

/// Becomes a program that ends when the process that started it does, however that ends. Linux only; elsewhere it just becomes it.
#[derive(Debug, Args)]
#[command(hide = true, after_help = "Example:\n  laststream guard -- envoy --version")]
pub(crate) struct Guard {
    /// The process that started this one. If it has gone already, nothing is started.
    #[arg(long, value_name = "PID")]
    parent: Option<u32>,
    /// The program and its arguments.
    #[arg(last = true, required = true, num_args = 1.., value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub(super) fn run(guard: &Guard, printer: &Printer) -> Exit {
    let Some((program, arguments)) = guard.program.split_first() else { return Exit::Usage };
    if let Err(error) = die_with_parent() {
        printer.warning(&format!("this program will not end with the one that started it: {error}"));
    }
    // The parent may have gone before the kernel was asked.
    if guard.parent.is_some_and(|parent| parent != std::os::unix::process::parent_id()) {
        printer.error(&"the process that started this one has gone");
        return Exit::Failed;
    }
    let error = Command::new(program).args(arguments).exec();
    printer.error(&format!("`{}` cannot be started: {error}", program.display()));
    Exit::Failed
}

#[cfg(target_os = "linux")]
fn die_with_parent() -> std::io::Result<()> {
    use rustix::process::{Signal, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(Into::into)
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent() -> std::io::Result<()> {
    Ok(())
}
