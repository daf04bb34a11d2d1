//! The signals of this process as a queue.
//!
//! The command stays in our process group, so a signal from a terminal (Ctrl-C, Ctrl-\, a new size)
//! has reached it already and is not forwarded; Ctrl-Z stops both, and `fg` continues both, without
//! our help. A hang-up may reach the leader of a session alone, so it is forwarded. Signals that
//! were ignored at our start (`nohup`) are left alone, so that the command ignores them, too.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use std::{io, thread};

use rustix::process::Signal;
use signal_hook::consts::{
    SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGURG, SIGUSR1, SIGUSR2,
    SIGVTALRM, SIGWINCH, SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

use super::reaper::Reaper;
use laststream_base::children::not_ignored;

/// The signals that are forwarded: not those of job control, nor those with which the kernel
/// reports a process's own faults.
const FORWARDED: [i32; 14] = [
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGURG, SIGUSR1, SIGUSR2, SIGVTALRM,
    SIGWINCH, SIGXCPU, SIGXFSZ,
];
/// Signals that ask a process to end, and end it by default.
const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

pub(crate) enum Event {
    /// A child may have ended.
    Child,
    Signal(Signal),
    /// The terminal sent this signal, also to the command.
    FromTerminal(Signal),
}

impl Event {
    /// The signal, from a process or from the terminal.
    pub(crate) fn signal(&self) -> Option<Signal> {
        match self {
            Self::Child => None,
            Self::Signal(signal) | Self::FromTerminal(signal) => Some(*signal),
        }
    }
}

pub(crate) struct Signals(Receiver<Event>);

impl Signals {
    pub(crate) fn watch() -> io::Result<Self> {
        let watched = not_ignored(&FORWARDED).into_iter().chain([SIGCHLD]);
        let mut signals = SignalsInfo::<WithOrigin>::new(watched)?;
        let (sender, events) = channel();
        thread::Builder::new().name("signals".into()).spawn(move || {
            for origin in &mut signals {
                if let Some(event) = event(&origin)
                    && sender.send(event).is_err()
                {
                    break;
                }
            }
        })?;
        Ok(Self(events))
    }

    pub(crate) fn next(&self) -> Option<Event> {
        self.0.recv().ok()
    }

    /// Waits for this time. A signal that asks this process to end ends the wait; its number is
    /// returned.
    pub(crate) fn pause(&self, time: Duration, reaper: &mut Reaper) -> Option<i32> {
        let until = Instant::now() + time;
        loop {
            match self.0.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Event::Child) => drop(reaper.reap(None)),
                Ok(Event::Signal(signal) | Event::FromTerminal(signal))
                    if ENDING.contains(&signal.as_raw()) =>
                {
                    return Some(signal.as_raw());
                }
                Ok(_) => {} // meant for a command that does not run
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => {
                    thread::sleep(until.saturating_duration_since(Instant::now()));
                    return None;
                }
            }
        }
    }
}

fn event(origin: &Origin) -> Option<Event> {
    if origin.signal == SIGCHLD {
        return Some(Event::Child);
    }
    let signal = Signal::from_named_raw(origin.signal)?;
    let is_terminals = matches!(origin.cause, Cause::Kernel)
        && matches!(origin.signal, SIGINT | SIGQUIT | SIGWINCH);
    Some(if is_terminals { Event::FromTerminal(signal) } else { Event::Signal(signal) })
}
