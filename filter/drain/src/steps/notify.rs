//! The call that tells the app that the drain has begun. The drain does not wait for it.

use super::callback::Callback;
use crate::requests::{Call, Level};
use crate::state::timing::NOTIFY_PAUSE;
use crate::state::{CallEnd, DrainPolicy, Moment, Phase};

/// Makes the call, if it is due and no other worker makes it.
pub(crate) fn call_when_due(policy: &DrainPolicy, callback: &mut Callback<'_>) {
    let Some(patience) = policy.notify_patience else { return };
    let (now, began) = (callback.now(), callback.shared.record.began);
    let is_due = callback.shared.record.phase == Phase::Draining && now >= began + policy.delay;
    if is_due && callback.shared.notify.send(patience, now) {
        callback.call(Call::Notify { began });
    }
}

pub(crate) fn has_ended(began: Moment, end: CallEnd, callback: &mut Callback<'_>) {
    let is_told = matches!(end, CallEnd::Answered(200..300));
    if callback.shared.record.began == began {
        let end = if is_told { CallEnd::Answered(200) } else { end };
        callback.shared.notify.record(end, callback.now(), NOTIFY_PAUSE);
    }
    match is_told {
        true => callback.log(Level::Info, "the app was told that the drain has begun"),
        false => callback.log(Level::Warning, "the call that tells the app of the drain failed"),
    }
}
