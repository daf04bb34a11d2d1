//! The orders of one worker's gate to end streams.

use super::callback::Callback;
use crate::counts::{Census, Order, Request};
use crate::requests::{Effect, Level};
use crate::state::timing::{END_ASK_INTERVAL, END_INTERVAL, NOTICE_INTERVAL, YOUNG};
use crate::state::{DrainPolicy, Moment, Phase, Queue, Shared, StreamKind, Window};

/// The last order, question and notice of this worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct EndOrders {
    ordered_at: Moment,
    asked_at: Moment,
    look_since: Option<Moment>,
    noticed_at: Moment,
}

/// The window of the drain that goes on, if it ends streams.
pub(crate) fn window(policy: &DrainPolicy, shared: &Shared) -> Option<Window> {
    let record = &shared.record;
    let ends = record.phase == Phase::Draining
        && !policy.end.kinds.is_empty()
        && shared.ends.may_end(record.began);
    ends.then(|| policy.end.window(record.began, record.deadline))
}

impl EndOrders {
    /// Claims the streams that are due to end now, and puts the order into the requests; or only
    /// asks how many streams are left.
    pub(crate) fn order(
        &mut self,
        policy: &DrainPolicy,
        census: &Census,
        requests: &mut [(Queue, Request)],
        callback: &mut Callback<'_>,
    ) {
        let (facts, now) = (callback.facts, callback.now());
        let Some(window) = window(policy, &callback.shared) else { return };
        if now < window.from || now - self.ordered_at < END_INTERVAL {
            return;
        }
        self.ordered_at = now;
        let survey = census.end_survey(facts, &policy.scopes);
        let drain = callback.shared.record.began;
        let mut ends = callback.shared.ends;
        let is_first = ends.begin(drain);
        let count = match survey.is_known() {
            true => ends.claim(now, window, survey.endable, survey.most()),
            false => 0,
        };
        if count == 0 && now - self.asked_at < END_ASK_INTERVAL {
            return;
        }
        self.asked_at = now;
        let look_since = self.look_since.filter(|_| survey.answered == 0 || survey.unseen > 0);
        self.look_since = look_since.or(Some(now));
        let order = Order {
            count,
            kinds: policy.end.kinds,
            changing: policy.end.changing,
            // Counters leave young streams alone, so none of them may use up a part of the order.
            began_before: now - policy.end.at_age.unwrap_or_default().max(YOUNG),
            retry_after: policy.end.retry_after,
            grace: policy.end.grace,
            look_since: look_since.unwrap_or(now),
            drain,
        };
        let streams = census.put_order(facts, &policy.scopes, order, requests);
        ends.give_back(count.saturating_sub(streams));
        callback.shared.ends = ends;
        self.notify_frames(policy, callback);
        if is_first {
            let (kinds, over) = (policy.end.kinds.names(), (window.to - now).0);
            let line = format!("the gate ends streams from now on: {kinds}; over {over} ms");
            callback.log(Level::Warning, line);
        }
    }

    fn notify_frames(&mut self, policy: &DrainPolicy, callback: &mut Callback<'_>) {
        let (now, end) = (callback.now(), &policy.end);
        let is_due = now - self.noticed_at >= NOTICE_INTERVAL;
        if end.kinds.contains(StreamKind::Websocket) && is_due {
            self.noticed_at = now;
            callback.push(Effect::NotifyFrames(now + NOTICE_INTERVAL * 2 + end.grace));
        }
    }
}
