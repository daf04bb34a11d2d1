//! The call that tells the app that the drain has begun. The drain does not wait for it.

use super::turn::Turn;
use crate::requests::{Call, Level};
use crate::state::timing::NOTIFY_PAUSE;
use crate::state::{CallEnd, Moment, Phase, Policy};

/// Makes the call, if it is due and no other worker makes it.
pub(crate) fn call_when_due(policy: &Policy, turn: &mut Turn<'_>) {
    let Some(patience) = policy.notify_patience else { return };
    let (now, began) = (turn.now(), turn.shared.record.began);
    let is_due = turn.shared.record.phase == Phase::Draining && now >= began + policy.delay;
    if is_due && turn.shared.notify.send(patience, now) {
        turn.call(Call::Notify { began });
    }
}

pub(crate) fn has_ended(began: Moment, end: CallEnd, turn: &mut Turn<'_>) {
    let is_told = matches!(end, CallEnd::Answered(200..300));
    if turn.shared.record.began == began {
        let end = if is_told { CallEnd::Answered(200) } else { end };
        turn.shared.notify.record(end, turn.now(), NOTIFY_PAUSE);
    }
    match is_told {
        true => turn.log(Level::Info, "the app was told that the drain has begun"),
        false => turn.log(Level::Warning, "the call that tells the app of the drain failed"),
    }
}
