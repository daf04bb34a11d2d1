//! The pacing of the ends by one worker's gate: in each round it claims the streams that are due,
//! orders the counters to end them, and asks how many are left.

use super::command::PendingEnd;
use super::due::{change_windows, jobs};
use super::job::{Job, JobKind};
use super::state::{Claim, EndState};
use crate::census::ender::{YOUNG, stop_ends};
use crate::census::frames::{FrameNotice, notify_frame_filters};
use crate::census::{EndFilter, EndOrder, EndSurvey, StreamKind, insert_lowest};
use crate::gate::config_drain::ConfigDrain;
use crate::gate::end_status::EndStatus;
use crate::gate::gate::Gate;
use crate::gate::machine::Record;
use crate::gate::replies::kind_names;
use crate::host::{Control, Level};
use crate::shared_text;

/// The interval between two rounds; milliseconds. It is shorter than a tick, because a tick can
/// come a little early.
const INTERVAL: u64 = 50;
/// The interval between two queries of a gate that has nothing to order; milliseconds. The gates of
/// all workers tick in a drain, and each would ask each counter on every tick.
const ASK_INTERVAL: u64 = 400;
/// The most queries without an order in one round, for jobs of one kind. A counter that is behind
/// gets only a few messages, and there can be several changes at a time.
const MOST_QUESTIONS: usize = 3;
/// The interval between two notices to the frame filters; milliseconds. A notice is valid for twice
/// as long plus the grace period.
const NOTICE_INTERVAL: u64 = 1_000;

/// The ends, as far as one worker's gate knows them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ends {
    key: String,
    asked_at: u64,
    /// The jobs that go on, with the last query about each.
    asked: Vec<Asked>,
    noticed_at: u64,
    /// A command that waits for the counters' replies.
    pub(super) pending: Option<PendingEnd>,
    /// Whether streams were ended without a drain when the tick period was last set.
    is_going_on: bool,
}

/// The last query to the counters about one job.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// The number of the job.
    job: u64,
    at: u64,
    /// See `EndRequest::look_since`.
    look_since: u64,
}

impl Ends {
    /// `record`: the key of the gate's record.
    pub(crate) fn new(record: &str) -> Self {
        Self { key: format!("{record} ends"), ..Self::default() }
    }

    pub(crate) fn read(&self, host: &impl Control) -> EndState {
        shared_text::read(host, &self.key)
    }

    pub(super) fn update(&self, host: &impl Control, work: &mut dyn FnMut(&mut EndState)) {
        shared_text::update(host, &self.key, work);
    }

    pub(crate) fn is_going_on(&self) -> bool {
        self.is_going_on
    }

    pub(crate) fn has_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// The number of streams that were ordered to end in this drain.
    pub(crate) fn ended_in(&self, host: &impl Control, record: &Record) -> u64 {
        let state = self.read(host);
        if state.drain_began == record.began { state.drain.ordered } else { 0 }
    }

    fn asked(&mut self, job: &Job, now: u64) -> &mut Asked {
        let number = job.number();
        let index = self.asked.iter().position(|asked| asked.job == number).unwrap_or_else(|| {
            self.asked.push(Asked { job: number, at: 0, look_since: now });
            self.asked.len() - 1
        });
        &mut self.asked[index]
    }

    /// The drain is being cancelled: from now on no worker orders an end for it, and no counter
    /// acts on an order.
    pub(in crate::gate) fn stop_drain(&self, host: &impl Control, record: &Record) {
        self.update(host, &mut |state| {
            state.drain_stopped = state.drain_stopped.max(record.began);
        });
        stop_ends(host, record.began);
    }

    /// The client of a pending command has gone.
    pub(crate) fn forget(&mut self, stream: u32) {
        self.pending.take_if(|pending| pending.stream == stream);
    }
}

impl Gate {
    fn end_jobs(&self, host: &impl Control, record: &Record, now: u64) -> Vec<Job> {
        let state = self.ends.read(host);
        let changes = self.policy.config_drain_time.map_or_else(Vec::new, |drain_time| {
            change_windows(&ConfigDrain::read(host), drain_time, now)
        });
        jobs(&self.policy.end, self.policy.exempts_long_lived, record, &state, &changes, now)
    }

    /// Updates whether streams are ended without a drain.
    pub(in crate::gate) fn refresh_ends(&mut self, host: &impl Control, record: &Record) {
        let jobs = self.end_jobs(host, record, host.monotonic_time());
        self.ends.is_going_on = jobs.iter().any(|job| job.kind != JobKind::Drain);
    }

    /// Orders the ends that are due now, for jobs of all kinds.
    pub(in crate::gate) fn drive_ends(&mut self, host: &impl Control) {
        let now = host.monotonic_time();
        if now.saturating_sub(self.ends.asked_at) < INTERVAL {
            return;
        }
        let record = self.record.read(host);
        let mut jobs = self.end_jobs(host, &record, now);
        jobs.retain(|job| now >= job.window.from);
        self.ends.asked.retain(|asked| jobs.iter().any(|job| job.number() == asked.job));
        for jobs in jobs.chunk_by(|one, other| one.kind == other.kind) {
            self.ends.asked_at = now;
            self.drive_jobs(host, jobs, &record, now);
        }
    }

    /// Orders the ends that are due for jobs of one kind. Streams that are older than one change
    /// are also older than the next, so only one of the jobs is ordered; for the others, the
    /// counters are only asked how many streams are left.
    fn drive_jobs(&mut self, host: &impl Control, jobs: &[Job], record: &Record, now: u64) {
        let Some(newest) = jobs.last() else { return };
        self.notify_frame_filters(host, newest, now);
        let survey =
            |job: &Job| self.sources.census.end_survey(host, &self.policy.scopes, job.number(), 0);
        let surveyed: Vec<_> = jobs.iter().map(|job| (*job, survey(job))).collect();
        let mut claim = Claim::default();
        self.ends.update(host, &mut |state| claim = state.claim(&surveyed, record.began, now));
        let Claim { count, index: claimed, is_first } = claim;
        if is_first {
            let (kinds, over) =
                (kind_names(newest.which.kinds), newest.window.to - now.min(newest.window.to));
            let line = format!("the gate ends streams from now on: {kinds}; over {over} ms");
            host.log(Level::Warning, &line);
        }
        let mut due = Vec::new();
        for (index, job) in jobs.iter().enumerate() {
            let asked_at = self.ends.asked(job, now).at;
            let is_due = now.saturating_sub(asked_at) >= ASK_INTERVAL;
            if is_due && (count == 0 || index != claimed) {
                insert_lowest(&mut due, MOST_QUESTIONS, asked_at, index);
            }
        }
        if count > 0 {
            let drain_began = if newest.kind == JobKind::Drain { record.began } else { 0 };
            let sent = self.order_ends(host, &surveyed[claimed], count, now, drain_began);
            let unsent = count - sent.min(count);
            if unsent > 0 {
                self.ends.update(host, &mut |state| state.return_unsent(&jobs[claimed], unsent));
            }
        }
        for (_, index) in due {
            self.order_ends(host, &surveyed[index], 0, now, 0);
        }
    }

    /// Orders the counters to end `count` streams, or only asks how many are left if it is 0.
    /// Returns how many ends were sent.
    fn order_ends(
        &mut self,
        host: &impl Control,
        (job, survey): &(Job, EndSurvey),
        count: u64,
        now: u64,
        drain_began: u64,
    ) -> u64 {
        let asked = self.ends.asked(job, now);
        asked.at = now;
        if survey.replied > 0 && survey.unseen == 0 {
            asked.look_since = now;
        }
        let look_since = asked.look_since;
        // Counters leave young streams alone, so none of them may use up a part of the order.
        let began_before = job.which.began_before.min(now.saturating_sub(YOUNG));
        let (which, how) = (EndFilter { began_before, ..job.which }, job.how);
        let (job, scopes) = (job.number(), &self.policy.scopes[..]);
        let list_limit = 0;
        let order =
            EndOrder { scopes, job, which, how, count, list_limit, look_since, drain_began };
        let (_, sent) = self.sources.census.order_ends(host, order);
        sent
    }

    /// Notifies the frame filters that WebSockets are ended. They read which ones to close only
    /// while a notice is valid.
    fn notify_frame_filters(&mut self, host: &impl Control, job: &Job, now: u64) {
        let is_due = now.saturating_sub(self.ends.noticed_at) >= NOTICE_INTERVAL;
        if job.which.kinds.contains(StreamKind::Websocket) && is_due {
            self.ends.noticed_at = now;
            let valid_for = (2 * NOTICE_INTERVAL).saturating_add(job.how.grace);
            notify_frame_filters(host, FrameNotice { until: now.saturating_add(valid_for) });
        }
    }

    /// The ends as a status shows them: one entry for each kind of job.
    pub(in crate::gate) fn end_statuses(
        &self,
        host: &impl Control,
        record: &Record,
        now: u64,
    ) -> Vec<EndStatus> {
        let scopes = &self.policy.scopes;
        let status = |job: &Job| {
            let survey = self.sources.census.end_survey(host, scopes, job.number(), 0);
            EndStatus::new(job, survey, now)
        };
        // The streams of the newest change include those of all changes before it.
        let jobs = self.end_jobs(host, record, now);
        let by_kind = jobs.chunk_by(|one, other| one.kind == other.kind);
        by_kind.filter_map(|jobs| jobs.last()).map(status).collect()
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use crate::census::ending::{EndReply, EndRequest};
    use crate::census::index::{IndexEntry, add_to_index, register_queue};
    use crate::config::wire::{self, BeginCall, End, EndKind, Scope};
    use crate::fake::Fake;
    use crate::gate::Gate;
    use crate::gate::config_drain::ConfigDrain;
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

    fn reply(host: &Fake, gate: &mut Gate, queue: u32, order: EndRequest, unseen: u64) {
        let EndRequest { reply_to, job, round, .. } = order;
        let reply = EndReply { queue, job, round, knows_kinds: true, endable: 0, unseen };
        host.enqueue(reply_to, reply.to_text().as_bytes());
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
        let asked = orders(&host, queue);
        assert_eq!(asked.len(), 1);
        let EndRequest { reply_to, job, round, .. } = asked[0];
        let endable = EndReply { queue, job, round, knows_kinds: true, endable: 9, unseen: 0 };
        host.enqueue(reply_to, endable.to_text().as_bytes());
        other.sources.census.receive_replies(&host);
        host.clock.set(40_100);
        other.drive_ends(&host);
        let ordered = orders(&host, queue);
        assert!(ordered[0].count > 0 && ordered[0].drain_began == 30_000, "{ordered:?}");
        one.enqueue_command(&host, 9, Command::Cancel);
        one.run_next_command(&host);
        let stopped = host.get_shared_data("laststream.ends_stopped").expect("a number").0;
        assert_eq!(stopped, b"30000", "which counters compare with an order");
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
            reply(&host, &mut gate, queue, order, unseen);
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
            gate.end_statuses(&host, &record, 40_000)[0].left
        };
        gate.drive_ends(&host);
        assert_eq!(left(&gate), None);
        let [order] = orders(&host, queue)[..] else { panic!("one order") };
        reply(&host, &mut gate, queue, order, 0);
        assert_eq!(left(&gate), Some(0));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn counters_are_asked_about_each_of_many_changes_in_time() {
        let host = Fake::default();
        host.clock.set(40_000);
        let queue = counter(&host);
        let mut gate = gate(&host, 0);
        let drain_time = 45_000;
        gate.policy.config_drain_time = Some(drain_time);
        gate.record.update(&host, &mut |record| record.phase = Phase::Serving);
        for change in 0..=16 {
            ConfigDrain::record(&host, 20_000 + change * 1_000, Some(change), drain_time);
        }
        let mut asked = Vec::new();
        for now in (40_000..41_000).step_by(100) {
            host.clock.set(now);
            gate.drive_ends(&host);
            let orders = orders(&host, queue);
            assert!(orders.len() <= 4, "a counter gets few messages at a time");
            for order in orders {
                reply(&host, &mut gate, queue, order, 0);
                asked.push(order.job);
            }
        }
        asked.sort_unstable();
        asked.dedup();
        assert_eq!(asked.len(), 16, "replies are valid for a second");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn young_streams_do_not_use_up_an_order() {
        let host = Fake::default();
        host.clock.set(40_000);
        let queue = counter(&host);
        gate(&host, 30_000).drive_ends(&host);
        let [order] = orders(&host, queue)[..] else { panic!("one order") };
        assert_eq!(order.which.began_before, 38_000);
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
