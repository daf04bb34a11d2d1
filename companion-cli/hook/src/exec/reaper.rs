//! Exit codes of children that have ended. As PID 1 this process reaps every orphan, because no
//! other process does.

use rustix::process::{Pid, WaitOptions, WaitStatus, getpid, waitpid};

use super::code_of;

pub(crate) struct Reaper {
    is_init: bool,
}

impl Default for Reaper {
    fn default() -> Self {
        Self { is_init: getpid().is_init() }
    }
}

impl Reaper {
    /// Reaps children that have ended, without waiting. Returns the exit code of the wanted child
    /// if it is among them.
    pub(crate) fn reap(&mut self, wanted: Option<Pid>) -> Option<u8> {
        if !self.is_init {
            let (_, status) = waitpid(Some(wanted?), WaitOptions::NOHANG).ok()??;
            return code(status);
        }
        let mut exit = None;
        while let Ok(Some((pid, status))) = waitpid(None, WaitOptions::NOHANG) {
            if Some(pid) == wanted {
                exit = code(status);
            }
        }
        exit
    }

    /// Waits for the child, if no signal can wake this process.
    pub(crate) fn wait(&self, pid: Pid) -> u8 {
        loop {
            match waitpid(Some(pid), WaitOptions::empty()) {
                Ok(Some((_, status))) if code(status).is_some() => {
                    return code(status).unwrap_or(u8::MAX);
                }
                Err(rustix::io::Errno::INTR) | Ok(_) => {}
                Err(_) => return u8::MAX,
            }
        }
    }
}

/// The exit code; `None` for a child that has only stopped.
fn code(status: WaitStatus) -> Option<u8> {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Some(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(signal)) => Some(code_of(signal)),
        (None, None) => None,
    }
}
