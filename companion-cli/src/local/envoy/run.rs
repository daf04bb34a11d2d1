//! Starts a program, waits for a limited time, and keeps what it said.

use std::io::{self, Read, Seek};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// More of what a program says is not read.
const HEARD: u64 = 256 << 10;

/// A program that ended.
pub(crate) struct Ended {
    pub(crate) success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Why there is no end to tell of.
pub(crate) enum Failed {
    /// It did not start.
    Start(io::Error),
    /// It was still running after this time, and was killed.
    Time(Duration),
}

/// Runs a program. While it runs, `tick` is called several times a second.
///
/// Its output goes to unnamed files: with pipes, a grandchild that outlives the program would hold them, and with them the reader.
pub(crate) fn run(command: &mut Command, limit: Duration, tick: &mut dyn FnMut()) -> Result<Ended, Failed> {
    let mut stdout = tempfile::tempfile().map_err(Failed::Start)?;
    let mut stderr = tempfile::tempfile().map_err(Failed::Start)?;
    command.stdin(Stdio::null());
    command.stdout(stdout.try_clone().map_err(Failed::Start)?);
    command.stderr(stderr.try_clone().map_err(Failed::Start)?);
    let mut child = start(command).map_err(Failed::Start)?;
    let began = Instant::now();
    let mut pause = Duration::from_millis(1);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if began.elapsed() < limit => {}
            Ok(None) => {
                end(&mut child);
                return Err(Failed::Time(limit));
            }
            Err(error) => {
                end(&mut child);
                return Err(Failed::Start(error));
            }
        }
        tick();
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    };
    Ok(Ended { success: status.success(), stdout: heard(&mut stdout), stderr: heard(&mut stderr) })
}

fn end(child: &mut Child) {
    // Both fail only for a program that has ended.
    let _ = child.kill();
    let _ = child.wait();
}

/// A file that was just written can be busy: a child that another thread starts at that moment holds it open until its own exec.
fn start(command: &mut Command) -> io::Result<Child> {
    for _ in 0..100 {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => std::thread::sleep(Duration::from_millis(20)),
            result => return result,
        }
    }
    command.spawn()
}

fn heard(file: &mut std::fs::File) -> String {
    let mut bytes = Vec::new();
    // What cannot be read was not heard; the exit status stands for itself.
    let _ = file.rewind().and_then(|()| file.take(HEARD).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn keeps_both_outputs_and_the_status() {
        let Ok(ended) = run(&mut shell("echo out; echo err >&2; exit 3"), Duration::from_secs(10), &mut || {}) else { panic!() };
        assert_eq!((ended.success, ended.stdout.as_str(), ended.stderr.as_str()), (false, "out\n", "err\n"));
    }

    #[test]
    fn a_silent_program_is_killed_and_a_grandchild_does_not_hold_us() {
        let began = Instant::now();
        assert!(matches!(run(&mut shell("sleep 30"), Duration::from_millis(200), &mut || {}), Err(Failed::Time(_))));
        assert!(run(&mut shell("sleep 30 & echo done"), Duration::from_secs(10), &mut || {}).is_ok_and(|ended| ended.stdout == "done\n"));
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
}
