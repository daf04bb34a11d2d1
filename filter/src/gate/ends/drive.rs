//! The pacing of the ends by one worker's gate: in each round it claims the streams that are due,
//! orders the counters to end them, and asks how many are left.

use super::pacing::Window;
use super::state::{Claim, EndState};
use crate::census::frames::{FrameNotice, notify_frame_filters};
use crate::census::{EndOrder, EndSurvey, StreamKind};
use crate::gate::end_status::EndStatus;
use crate::gate::gate::Gate;
use crate::gate::machine::Record;
use crate::gate::phase::Phase;
use crate::host::{Control, Level};
use crate::shared_text;

/// The interval between two rounds; milliseconds. It is shorter than a tick, because a tick can
/// come a little early.
const INTERVAL: u64 = 50;
/// The interval between two queries of a gate that has nothing to order; milliseconds. The gates of
/// all workers tick in a drain, and each would ask each counter on every tick.
const ASK_INTERVAL: u64 = 400;
/// The interval between two notices to the frame filters; milliseconds. A notice is valid for twice
/// as long plus the grace period.
const NOTICE_INTERVAL: u64 = 1_000;

/// The ends, as far as one worker's gate knows them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ends {
    key: String,
    /// The last round.
    driven_at: u64,
    /// None while no streams are ended.
    asked: Option<Asked>,
    noticed_at: u64,
}

/// The last query to the counters.
#[derive(Debug, Clone, Copy)]
struct Asked {
    at: u64,
    /// See `EndRequest::look_since`.
    look_since: u64,
}

impl Ends {
    /// `record`: the key of the gate's record.
    pub(crate) fn new(record: &str) -> Self {
        Self { key: format!("{record} ends"), ..Self::default() }
    }

    fn read(&self, host: &impl Control) -> EndState {
        shared_text::read(host, &self.key)
    }

    fn update(&self, host: &impl Control, work: &mut dyn FnMut(&mut EndState)) {
        shared_text::update(host, &self.key, work);
    }

    /// The number of streams that were ordered to end in this drain.
    pub(crate) fn ended_in(&self, host: &impl Control, record: &Record) -> u64 {
        let state = self.read(host);
        if state.drain_began == record.began { state.progress.ordered } else { 0 }
    }

    /// The drain is being cancelled: from now on no worker ends a stream for it.
    pub(in crate::gate) fn stop_drain(&self, host: &impl Control, record: &Record) {
        self.update(host, &mut |state| {
            state.drain_stopped = state.drain_stopped.max(record.began);
        });
    }
}

impl Gate {
    /// The window of the current drain, if streams are ended in it.
    fn end_window(&self, host: &impl Control, record: &Record) -> Option<Window> {
        let policy = &self.policy.end;
        let ends = record.phase == Phase::Draining
            && !policy.kinds.is_empty()
            && record.began > self.ends.read(host).drain_stopped;
        ends.then(|| policy.window(record))
    }

    /// Orders the ends that are due now.
    pub(in crate::gate) fn drive_ends(&mut self, host: &impl Control) {
        let now = host.monotonic_time();
        if now.saturating_sub(self.ends.driven_at) < INTERVAL {
            return;
        }
        let record = self.record.read(host);
        let window = self.end_window(host, &record).filter(|window| now >= window.from);
        let Some(window) = window else {
            self.ends.asked = None;
            return;
        };
        self.ends.driven_at = now;
        self.notify_frame_filters(host, now);
        let survey = self.sources.census.end_survey(host, &self.policy.scopes);
        let mut claim = Claim::default();
        let began = record.began;
        self.ends.update(host, &mut |state| claim = state.claim(window, survey, began, now));
        if claim.is_first {
            let kinds: Vec<&str> = self.policy.end.kinds.iter().map(Into::into).collect();
            let (kinds, over) = (kinds.join(", "), window.to.saturating_sub(now));
            let line = format!("the gate ends streams from now on: {kinds}; over {over} ms");
            host.log(Level::Warning, &line);
        }
        let asked_at = self.ends.asked.map_or(0, |asked| asked.at);
        if claim.count == 0 && now.saturating_sub(asked_at) < ASK_INTERVAL {
            return;
        }
        let unsent = claim.count.saturating_sub(self.order_ends(host, survey, claim.count, now));
        if unsent > 0 {
            self.ends.update(host, &mut |state| state.return_unsent(unsent));
        }
    }

    /// Orders the counters to end `count` streams, or only asks how many are left if it is 0.
    /// Returns how many ends were sent.
    fn order_ends(&mut self, host: &impl Control, survey: EndSurvey, count: u64, now: u64) -> u64 {
        let asked = self.ends.asked.get_or_insert(Asked { at: now, look_since: now });
        asked.at = now;
        if survey.replied > 0 && survey.unseen == 0 {
            asked.look_since = now;
        }
        let order = EndOrder {
            scopes: &self.policy.scopes,
            which: self.policy.end.filter(now),
            how: self.policy.end.how,
            count,
            look_since: asked.look_since,
        };
        self.sources.census.order_ends(host, order)
    }

    /// Notifies the frame filters that WebSockets are ended. They read which ones to close only
    /// while a notice is valid.
    fn notify_frame_filters(&mut self, host: &impl Control, now: u64) {
        let policy = &self.policy.end;
        let is_due = now.saturating_sub(self.ends.noticed_at) >= NOTICE_INTERVAL;
        if policy.kinds.contains(StreamKind::Websocket) && is_due {
            self.ends.noticed_at = now;
            let valid_for = (2 * NOTICE_INTERVAL).saturating_add(policy.how.grace);
            notify_frame_filters(host, FrameNotice { until: now.saturating_add(valid_for) });
        }
    }

    /// The ends as a status shows them.
    pub(in crate::gate) fn end_status(
        &self,
        host: &impl Control,
        record: &Record,
        now: u64,
    ) -> Option<EndStatus> {
        let window = self.end_window(host, record)?;
        let survey = self.sources.census.end_survey(host, &self.policy.scopes);
        Some(EndStatus::new(self.policy.end.kinds, window, survey, now))
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use crate::census::MOST_ORDERED;
    use crate::census::ending::{EndReply, EndRequest};
    use crate::census::index::{IndexEntry, add_to_index, register_queue};
    use crate::config::wire::{self, BeginCall, End, EndKind, Scope};
    use crate::fake::Fake;
    use crate::gate::Gate;
    use crate::gate::http::Command;
    use crate::gate::phase::Phase;
    use crate::gate::policy::Policy;
    use crate::gate::step::Step;
    use crate::host::Control as _;

    /// A counter's queue.
    fn counter(host: &Fake) -> u32 {
        let queue = register_queue(host).expect("a queue");
        let (scope, since, configuration) = (Scope::Gateway, 1, 1);
        add_to_index(host, IndexEntry::new(queue, scope, since, configuration));
        queue
    }

    /// A gate in a drain that began at `began` and ends streams from its beginning on.
    fn gate(host: &Fake, began: u64) -> Gate {
        let end = End { waiting: EndKind::End, at_age_ms: Some(0), ..End::default() };
        let policy = Policy::new(wire::Gate { end: Some(end), ..wire::Gate::default() });
        let gate = Gate::new(host, 1, policy).expect("metrics");
        gate.record.update(host, &mut |record| {
            (record.phase, record.began, record.deadline) =
                (Phase::Draining, began, began + 30_000);
        });
        gate
    }

    fn orders(host: &Fake, queue: u32) -> Vec<EndRequest> {
        let messages = core::iter::from_fn(|| host.dequeue(queue));
        messages.filter_map(|message| EndRequest::parse(&message)).collect()
    }

    fn reply(host: &Fake, gate: &mut Gate, order: EndRequest, reply: EndReply) {
        host.enqueue(order.reply_to, reply.to_text().as_bytes());
        gate.sources.census.receive_replies(host);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_cancelled_drain_ends_no_stream_before_envoy_has_answered() {
        let host = Fake::default();
        host.clock.set(40_000);
        let queue = counter(&host);
        let (mut one, mut other) = (gate(&host, 30_000), gate(&host, 30_000));
        one.record.update(&host, &mut |record| record.begin = Step::Done);
        one.policy.begin = BeginCall::FailHealthChecks;
        other.drive_ends(&host);
        assert_eq!(orders(&host, queue).len(), 1);
        one.enqueue_command(&host, 9, Command::Cancel);
        one.run_next_command(&host);
        assert_eq!((host.calls.borrow().len(), host.answers.borrow().len()), (1, 0));
        for now in [40_500, 41_000] {
            host.clock.set(now);
            one.drive_ends(&host);
            other.drive_ends(&host);
            assert!(orders(&host, queue).is_empty(), "at {now}");
        }
        one.record.update(&host, &mut |record| {
            (record.phase, record.began, record.deadline) = (Phase::Draining, 41_000, 71_000);
        });
        other.drive_ends(&host);
        assert_eq!(orders(&host, queue).len(), 1, "the next drain");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn responses_are_looked_at_again_after_a_complete_pass() {
        let host = Fake::default();
        let queue = counter(&host);
        let mut gate = gate(&host, 39_000);
        let mut look_since = Vec::new();
        for (now, unseen) in [(40_000, 900), (40_400, 500), (40_800, 0), (41_200, 0)] {
            host.clock.set(now);
            gate.drive_ends(&host);
            let [order] = orders(&host, queue)[..] else { panic!("one order at {now}") };
            look_since.push(order.look_since);
            reply(&host, &mut gate, order, EndReply { queue, unseen, ..EndReply::default() });
        }
        assert_eq!(look_since, [40_000, 40_000, 40_000, 41_200]);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_status_shows_how_many_are_left_once_a_counter_has_replied() {
        let host = Fake::default();
        host.clock.set(40_000);
        let queue = counter(&host);
        let mut gate = gate(&host, 39_000);
        let left = |gate: &Gate| {
            let record = gate.record.read(&host);
            gate.end_status(&host, &record, 40_000).expect("ends").left
        };
        gate.drive_ends(&host);
        assert_eq!(left(&gate), None);
        let [order] = orders(&host, queue)[..] else { panic!("one order") };
        reply(&host, &mut gate, order, EndReply { queue, ..EndReply::default() });
        assert_eq!(left(&gate), Some(0));
    }

    /// One of two counters has all streams, and more than it can be ordered to end at once.
    #[wasm_bindgen_test(unsupported = test)]
    fn only_the_orders_that_were_sent_are_counted() {
        let host = Fake::default();
        host.clock.set(60_000);
        let queues = [counter(&host), counter(&host)];
        let mut gate = gate(&host, 39_000);
        gate.drive_ends(&host);
        for (queue, endable) in queues.into_iter().zip([1_200, 0]) {
            let [order] = orders(&host, queue)[..] else { panic!("one order") };
            reply(&host, &mut gate, order, EndReply { queue, endable, ..EndReply::default() });
        }
        host.clock.set(60_100);
        gate.drive_ends(&host);
        let sent: u64 = orders(&host, queues[0]).iter().map(|order| order.count).sum();
        let ordered = gate.ends.ended_in(&host, &gate.record.read(&host));
        assert_eq!((sent, ordered), (MOST_ORDERED, MOST_ORDERED));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_gate_that_has_nothing_to_order_asks_less_often() {
        let host = Fake::default();
        host.clock.set(40_000);
        let queue = counter(&host);
        let mut gate = gate(&host, 39_000);
        let asked: Vec<u64> = (40_000..41_000)
            .step_by(100)
            .filter(|now| {
                host.clock.set(*now);
                gate.drive_ends(&host);
                !orders(&host, queue).is_empty()
            })
            .collect();
        assert_eq!(asked, [40_000, 40_400, 40_800]);
    }
}
