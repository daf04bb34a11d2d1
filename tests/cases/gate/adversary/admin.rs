//! The admin interface's side: it reads the view at the very moment in which a signal arrives, and
//! is in trouble for a while.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use laststream_drain::sim::expected;
use tokio::time::Instant;

use super::view::{Id, View};
use kit::admin_proxy::{AdminFault, CallHandling};
use kit::prelude::*;

/// The time after which the last call of a drain is refused, so that the process lives.
pub(super) const LAST_CALL_TAKES: Duration = Duration::from_millis(150);

/// The faults of the gate's queries.
pub(super) const FAULTS: [AdminFault; 6] = [
    AdminFault::Slow(Duration::from_millis(400)),
    AdminFault::Slow(Duration::from_millis(2_000)),
    AdminFault::Empty,
    AdminFault::Foreign,
    AdminFault::Half,
    AdminFault::Unavailable(Duration::ZERO),
];

/// A signal that the gate has passed on to Envoy, and the streams whose clients waited at that
/// moment.
pub(super) struct Pass {
    pub(super) path: String,
    pub(super) at: Instant,
    pub(super) waiting: Vec<Id>,
    /// No operator has asked for it.
    is_last_call: bool,
}

#[derive(Default)]
pub(super) struct Signals {
    /// The gate that is asked to pass a signal, and its path.
    asked: Mutex<Option<(usize, String)>>,
    /// Whether a quit signal is passed on to Envoy.
    may_quit: AtomicBool,
    passes: Mutex<Vec<Pass>>,
    fault: Mutex<Option<(AdminFault, Instant)>>,
    /// When the last query for Envoy's statistics came.
    queried: Mutex<Option<Instant>>,
}

impl Signals {
    pub(super) fn are_for(&self, gate: usize, path: &str) {
        *locked(&self.asked) = Some((gate, path.to_owned()));
    }

    pub(super) fn may_quit(&self) {
        self.may_quit.store(true, Ordering::SeqCst);
    }

    /// The signals that an operator has asked for. From now on nobody asks for one.
    pub(super) fn take_asked(&self) -> Vec<Pass> {
        *locked(&self.asked) = None;
        self.take(|pass| !pass.is_last_call)
    }

    /// The last calls of drains.
    pub(super) fn take_last_calls(&self) -> Vec<Pass> {
        self.take(|pass| pass.is_last_call)
    }

    fn take(&self, wanted: impl Fn(&Pass) -> bool) -> Vec<Pass> {
        let mut passes = locked(&self.passes);
        let (taken, left) = std::mem::take(&mut *passes).into_iter().partition(wanted);
        *passes = left;
        taken
    }

    pub(super) fn is_in_trouble(&self, fault: Option<(AdminFault, Instant)>) {
        *locked(&self.fault) = fault;
    }

    pub(super) fn judge(&self, view: &View, method: &str, path: &str) -> CallHandling {
        let now = Instant::now();
        if method != "POST" {
            *locked(&self.queried) = Some(now);
            let fault = locked(&self.fault).filter(|(_, until)| now < *until);
            return fault.map_or(CallHandling::Forward, |(fault, _)| CallHandling::Fault(fault));
        }
        let Some(signal) = expected::signal(path) else { return CallHandling::Forward };
        let asked = locked(&self.asked).clone().filter(|(_, asked)| asked == path);
        let is_last_call = asked.is_none();
        // The first gate makes the last calls.
        let gate = asked.map_or(0, |(gate, _)| gate);
        let queried = locked(&self.queried).unwrap_or(now);
        let gates = expected::gates_of(&signal, gate, 2);
        let mut waiting: Vec<Id> =
            gates.flat_map(|gate| view.waiting_since_query(gate, now, queried)).collect();
        // The second gate knows the rules, even if the first does not.
        waiting.retain(|id| gate == 0 || !view.is_exempt(*id));
        locked(&self.passes).push(Pass { path: path.into(), at: now, waiting, is_last_call });
        if signal.ends_envoy() && self.may_quit.load(Ordering::SeqCst) {
            CallHandling::Forward
        } else if is_last_call {
            CallHandling::Fault(AdminFault::Unavailable(LAST_CALL_TAKES))
        } else {
            CallHandling::Intercept
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
