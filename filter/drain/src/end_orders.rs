//! The orders of one worker's gate to end streams.

use crate::census::Census;
use crate::effects::Effect;
use crate::kinds::StreamKind;
use crate::messages::{Order, Request};
use crate::policy::Policy;
use crate::timing::{END_ASK_INTERVAL, END_INTERVAL, NOTICE_INTERVAL, YOUNG};
use crate::turn::Turn;

/// The last order, question and notice of this worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct EndOrders {
    ordered_at: u64,
    asked_at: u64,
    look_since: u64,
    noticed_at: u64,
}

impl EndOrders {
    /// Claims the streams that are due to end now, and puts the order into the requests; or only
    /// asks how many streams are left.
    pub(crate) fn order(
        &mut self,
        policy: &Policy,
        census: &Census,
        requests: &mut Vec<(u32, Request)>,
        turn: &mut Turn<'_, '_>,
    ) {
        let (facts, now) = (turn.facts, turn.facts.now);
        let Some(window) = facts.ends.window(&policy.end, &turn.record) else { return };
        if now < window.from || now.saturating_sub(self.ordered_at) < END_INTERVAL {
            return;
        }
        self.ordered_at = now;
        let survey = census.end_survey(facts, &policy.scopes);
        let mut to = facts.ends;
        let is_first = to.begin(turn.record.began);
        let count = to.claim(now, window, &survey);
        let is_question_due = now.saturating_sub(self.asked_at) >= END_ASK_INTERVAL;
        if count == 0 && !is_question_due {
            return;
        }
        self.asked_at = now;
        if survey.answered > 0 && survey.unseen == 0 || self.look_since == 0 {
            self.look_since = now;
        }
        // Counters leave young streams alone, so none of them may use up a part of the order.
        let old = now.saturating_sub(policy.end.at_age.unwrap_or(0).max(YOUNG));
        let order = Order {
            count,
            kinds: policy.end.kinds,
            changing: policy.end.changing,
            began_before: old,
            retry_after: policy.end.retry_after,
            grace: policy.end.grace,
            look_since: self.look_since,
            drain: turn.record.began,
        };
        let sent = census.put_order(facts, &policy.scopes, order, requests);
        to.give_back(count - sent.min(count));
        let (orders, others) =
            core::mem::take(requests).into_iter().partition(|(_, request)| request.order.is_some());
        *requests = others;
        self.notify_frames(policy, turn);
        let line = is_first.then(|| {
            let (kinds, over) = (policy.end.kinds.names(), window.to.saturating_sub(now));
            format!("the gate ends streams from now on: {kinds}; over {over} ms")
        });
        turn.push(Effect::Order { from: facts.ends, to, orders, line });
    }

    fn notify_frames(&mut self, policy: &Policy, turn: &mut Turn<'_, '_>) {
        let (now, end) = (turn.facts.now, &policy.end);
        let is_due = now.saturating_sub(self.noticed_at) >= NOTICE_INTERVAL;
        if end.kinds.contains(StreamKind::Websocket) && is_due {
            self.noticed_at = now;
            let until = now.saturating_add(2 * NOTICE_INTERVAL).saturating_add(end.grace);
            turn.push(Effect::NotifyFrames(until));
        }
    }
}
