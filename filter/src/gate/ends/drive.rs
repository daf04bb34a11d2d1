//! The gate of one worker paces the ends: in each round it claims what is due, orders it from the
//! counters, and asks them what is left.

use strum::VariantArray as _;

use super::command::PendingEnd;
use super::job::{Job, JobKind, jobs};
use super::state::{Claim, EndState};
use crate::census::ender::YOUNG;
use crate::census::frames::{FrameNotice, notify_frame_filters};
use crate::census::{EndFilter, EndOrder, MOST_ORDERED, StreamKind};
use crate::gate::gate::Gate;
use crate::gate::machine::Record;
use crate::gate::replies::{EndStatus, kind_names};
use crate::host::{Control, Level};

/// Between two rounds; milliseconds. Less than a tick, because a tick can come a little early.
const INTERVAL: u64 = 50;
/// Between two questions of a gate that has nothing to order; milliseconds. The gates of all
/// workers tick in a drain, and each would ask each counter.
const ASK_INTERVAL: u64 = 400;
/// Between two notices to the frame filters, and for how much longer than that they are valid;
/// milliseconds.
const NOTICE_INTERVAL: u64 = 1_000;

/// The ends, as one worker's gate sees them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ends {
    key: String,
    asked_at: u64,
    /// The same, by the number of the job.
    job_asked_at: [u64; JobKind::VARIANTS.len() + 1],
    noticed_at: u64,
    /// A command that waits for the counters' replies.
    pub(super) pending: Option<PendingEnd>,
    /// Whether streams are ended without a drain, when the tick period was last set.
    is_going_on: bool,
}

impl Ends {
    /// `record`: the key of the gate's record.
    pub(crate) fn new(record: &str) -> Self {
        Self { key: format!("{record} ends"), ..Self::default() }
    }

    pub(crate) fn read(&self, host: &impl Control) -> EndState {
        EndState::read(host, &self.key)
    }

    pub(super) fn update(&self, host: &impl Control, work: &mut dyn FnMut(&mut EndState)) {
        EndState::update(host, &self.key, work);
    }

    pub(crate) fn is_going_on(&self) -> bool {
        self.is_going_on
    }

    pub(crate) fn has_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// How many streams were ordered to end in this drain.
    pub(crate) fn ended_in(&self, host: &impl Control, record: &Record) -> u64 {
        let state = self.read(host);
        if state.drain_began == record.began { state.drain.ordered } else { 0 }
    }

    /// The client of a pending command has gone.
    pub(crate) fn forget(&mut self, stream: u32) {
        self.pending.take_if(|pending| pending.stream == stream);
    }
}

impl Gate {
    fn end_jobs(&self, host: &impl Control, record: &Record, now: u64) -> Vec<Job> {
        let state = self.ends.read(host);
        let drain = self.config_draining(host).zip(self.policy.config_drain_time);
        jobs(&self.policy.end, self.policy.exempts_long_lived, record, &state, drain, now)
    }

    /// Looks again whether streams are ended without a drain.
    pub(in crate::gate) fn refresh_ends(&mut self, host: &impl Control, record: &Record) {
        let jobs = self.end_jobs(host, record, host.monotonic_time());
        self.ends.is_going_on = jobs.iter().any(|job| job.kind != JobKind::Drain);
    }

    /// Orders what is due now.
    pub(in crate::gate) fn drive_ends(&mut self, host: &impl Control) {
        let now = host.monotonic_time();
        if now.saturating_sub(self.ends.asked_at) < INTERVAL {
            return;
        }
        let record = self.record.read(host);
        let jobs = self.end_jobs(host, &record, now);
        for job in jobs.into_iter().filter(|job| now >= job.window.from) {
            self.ends.asked_at = now;
            self.notify_frame_filters(host, &job, now);
            self.drive_job(host, &job, &record, now);
        }
    }

    fn drive_job(&mut self, host: &impl Control, job: &Job, record: &Record, now: u64) {
        let (number, scopes) = (job.kind as u64, &self.policy.scopes);
        let survey = self.sources.census.end_survey(host, scopes, number, 0);
        let most = MOST_ORDERED.saturating_mul(survey.replied);
        let mut claim = Claim::default();
        self.ends.update(host, &mut |state| {
            claim = state.claim(job, record.began, now, survey.endable, most);
        });
        let Claim { count, is_first } = claim;
        if is_first {
            let (kinds, over) =
                (kind_names(job.which.kinds), job.window.to - now.min(job.window.to));
            let line = format!("the gate ends streams from now on: {kinds}; over {over} ms");
            host.log(Level::Warning, &line);
        }
        let asked_at = &mut self.ends.job_asked_at[job.kind as usize];
        if count == 0 && now.saturating_sub(*asked_at) < ASK_INTERVAL {
            return;
        }
        *asked_at = now;
        // Counters leave young streams alone, so none of them may use up a part of the order.
        let began_before = job.which.began_before.min(now.saturating_sub(YOUNG));
        let (which, how) = (EndFilter { began_before, ..job.which }, job.how);
        let order = EndOrder { scopes, job: number, which, how, count, list_limit: 0 };
        self.sources.census.order_ends(host, order);
    }

    /// The frame filters read the counters' wishes only while they are told to.
    fn notify_frame_filters(&mut self, host: &impl Control, job: &Job, now: u64) {
        let is_due = now.saturating_sub(self.ends.noticed_at) >= NOTICE_INTERVAL;
        if job.which.kinds.contains(StreamKind::Websocket) && is_due {
            self.ends.noticed_at = now;
            let valid_for = (2 * NOTICE_INTERVAL).saturating_add(job.how.grace);
            notify_frame_filters(host, FrameNotice { until: now.saturating_add(valid_for) });
        }
    }

    /// What a status shows of the ends.
    pub(in crate::gate) fn end_statuses(
        &self,
        host: &impl Control,
        record: &Record,
        now: u64,
    ) -> Vec<EndStatus> {
        let scopes = &self.policy.scopes;
        let status = |job: Job| {
            let survey = self.sources.census.end_survey(host, scopes, job.kind as u64, 0);
            EndStatus::new(&job, survey.endable, now)
        };
        self.end_jobs(host, record, now).into_iter().map(status).collect()
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use crate::census::ending::EndRequest;
    use crate::census::index::{IndexEntry, add_to_index, register_queue};
    use crate::config::wire::{self, End, EndKind, Scope};
    use crate::fake::Fake;
    use crate::gate::Gate;
    use crate::gate::phase::Phase;
    use crate::gate::policy::Policy;
    use crate::host::Control as _;

    /// A counter's queue.
    fn counter(host: &Fake) -> u32 {
        let queue = register_queue(host).expect("a queue");
        let (scope, since, configuration) = (Scope::Gateway, 1, 1);
        add_to_index(host, IndexEntry { queue, scope, since, configuration });
        queue
    }

    /// A gate in a drain that began then and ends streams from its beginning on.
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

    #[wasm_bindgen_test(unsupported = test)]
    fn young_streams_use_up_no_order() {
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
