//! The call that tells the app that the drain has begun. The drain does not wait for it.

use crate::effects::{Effect, Level};
use crate::phase::Phase;
use crate::policy::Policy;
use crate::step::{CallEnd, Step};
use crate::turn::Turn;

/// Makes the call, if it is due and no other worker makes it.
pub(crate) fn call_when_due(policy: &Policy, turn: &mut Turn<'_, '_>) {
    let Some(patience) = policy.notify_patience else { return };
    let (now, began) = (turn.facts.now, turn.record.began);
    let is_due = turn.record.phase == Phase::Draining && now >= began.saturating_add(policy.delay);
    let from = step(turn);
    let mut to = from;
    let _ = is_due && to.claim(patience, now);
    if to != from {
        turn.push(Effect::Notify { began, from, to });
    }
}

/// The progress of the call to the app in the drain of this turn.
pub(crate) fn step(turn: &Turn<'_, '_>) -> Step {
    let is_same = turn.record.began == turn.facts.record.began;
    if is_same { turn.facts.notify } else { Step::Due }
}

pub(crate) fn has_ended(began: u64, end: CallEnd, turn: &mut Turn<'_, '_>) {
    let is_told = matches!(end, CallEnd::Answered(200..300));
    let from = turn.facts.notify;
    let mut to = from;
    to.record_and_pause(if is_told { CallEnd::Answered(200) } else { end }, turn.facts.now);
    if turn.record.began == began && to != from {
        turn.push(Effect::Notify { began, from, to });
    }
    match is_told {
        true => turn.log(Level::Info, "the app was told that the drain has begun"),
        false => turn.log(Level::Warning, "the call that tells the app of the drain failed"),
    }
}
