//! What each event changes before the evaluation: requests that are held, and commands. The ends of
//! calls are in `call_ends`.

use super::app::AppQuery;
use super::callback::Callback;
use super::cancelling::{self, IS_FINISHING, STAYS_SEALED, Undo};
use crate::counts::{Census, EnvoySamples};
use crate::requests::{
    Call, Cancelled, Client, Command, Effect, Event, GateMetric, HeldSignal, Hold, Level, Needs,
    Signal, Waiter, Waiting, WaitsFor,
};
use crate::state::timing::{
    AFTER_DEADLINE, ASKED_FOR_STRANGERS, JUST_ASKED, MOST_CLIENT_WAIT, MOST_READY_WAIT, READY_WAIT,
    SIGNAL_WAIT, STATUS_WAIT,
};
use crate::state::{DrainPolicy, Millis, Moment, StreamNumber};

const ALREADY_OPEN: &str =
    "no drain begins: the one before opened the gate; DELETE /drain closes it";

/// The parts of one worker's gate that an event changes.
#[derive(Debug)]
pub(crate) struct Apply<'w, 't, 'f> {
    pub(crate) policy: &'w DrainPolicy,
    pub(crate) census: &'w Census,
    pub(crate) samples: &'w mut EnvoySamples,
    pub(crate) waiting: &'w mut Waiting,
    pub(crate) app: &'w mut AppQuery,
    pub(crate) callback: &'t mut Callback<'f>,
}

impl Apply<'_, '_, '_> {
    pub(crate) fn event(&mut self, event: Event) {
        match event {
            Event::Request { stream, command, client } => {
                self.apply_command(stream, command, client)
            }
            Event::CallEnded(call, ended) => self.call_has_ended(call, ended),
            _ => {}
        }
    }

    fn apply_command(&mut self, stream: StreamNumber, command: Command, client: Client) {
        match command {
            Command::Status(wait) => self.hold_for_counts(stream, WaitsFor::Counts, wait, client),
            Command::Streams { limit, .. } if self.policy.by_envoy => {
                self.callback.call(Call::Clusters { stream, limit })
            }
            Command::Streams { limit, wait } => {
                self.hold_for_counts(stream, WaitsFor::Listing(limit), wait, client)
            }
            Command::Ready(wait) => self.hold_for_counts(stream, WaitsFor::Ready, wait, client),
            Command::PreStop(hold) => self.pre_stop(stream, hold, client),
            Command::Drain => {
                self.begin_drain(client);
                let is_open = self.callback.record().phase.is_unconditionally_open();
                let reason = if is_open { ALREADY_OPEN } else { "the drain has begun" };
                self.callback.outcome(stream, 202, reason);
            }
            Command::Cancel => self.cancel_drain(stream),
            Command::Force(why) => self.force(stream, &why),
            Command::Signal(signal) => self.hold_signal(stream, signal),
            Command::GracefulSignal(signal) => {
                self.callback.call(Call::Signal { stream, signal, is_latched: false })
            }
        }
    }

    fn pre_stop(&mut self, stream: StreamNumber, hold: Hold, client: Client) {
        self.begin_drain(client);
        let now = self.callback.now();
        self.callback.record().unproven_since = Some(now);
        let until = match hold {
            Hold::No => return self.hold_next(stream, WaitsFor::Ready, now + self.ready_wait()),
            Hold::AtMost(time) => now + time,
            Hold::UntilOpen => Moment(u64::MAX),
        };
        // Another hook may have begun the drain, long before this one.
        let latest = self.callback.record().deadline.max(now) + AFTER_DEADLINE;
        self.hold_next(stream, WaitsFor::Opening, until.min(latest));
        self.callback.shared.lead_from_now_on(self.callback.facts.queue, now);
    }

    fn ready_wait(&self) -> Millis {
        (READY_WAIT + self.callback.shared.pacing.longest_wait()).min(MOST_READY_WAIT)
    }

    fn force(&mut self, stream: StreamNumber, why: &str) {
        let (now, begun) = (self.callback.now(), self.callback.facts.counts.begun_before);
        self.callback.record().force(self.policy, now, begun, why);
        self.callback.show_phase();
        self.callback.push(Effect::Increment(GateMetric::Forced));
        self.callback.log(Level::Critical, format!("the gate was forced open: {why}"));
        self.callback.outcome(stream, 200, "the gate is open");
    }

    /// Holds a signal until every counter makes its streams check the latch. Envoy is queried again
    /// once the latch is closed, so a valid count is enough to try.
    fn hold_signal(&mut self, stream: StreamNumber, signal: Signal) {
        let until = self.callback.now() + SIGNAL_WAIT + self.callback.shared.pacing.longest_wait();
        let needs = Needs { round: self.census.round + 1, query: None };
        self.waiting.signals.push(HeldSignal { stream, signal, until, needs });
        self.callback.wants_round = true;
    }

    /// Begins a drain, and returns whether it did.
    pub(super) fn begin_drain(&mut self, client: Client) -> bool {
        let (now, begun) = (self.callback.now(), self.callback.facts.counts.begun_before);
        let longest = self.policy.deadline_within(client.longest_drain);
        if longest < self.policy.deadline {
            self.callback.push(Effect::Set(GateMetric::Deadline, longest.0 / 1_000));
        }
        let begins = self.callback.record().drain(self.policy, now, begun, longest);
        if begins {
            self.callback.shared.notify = Default::default();
            let (deadline, quiet) = (longest.0, self.policy.quiet.0);
            let line = format!("the drain begins: deadline in {deadline} ms, quiet for {quiet} ms");
            self.callback.log(Level::Warning, line);
            self.callback.show_phase();
            // The quiet period begins now, not with the first tick.
            self.callback.wants_round = true;
        }
        begins
    }

    /// Cancels the gate's drain, and Envoy's if that is possible.
    fn cancel_drain(&mut self, stream: StreamNumber) {
        let began = self.callback.record().began;
        let cancelled = cancelling::cancel(self.callback.record(), self.policy);
        if cancelled.is_finishing {
            self.callback.log(Level::Warning, "a drain was cancelled after its last call was sent");
        }
        if !cancelled.was_draining && !cancelled.has_begun {
            let note = self.cancellation_note(&cancelled);
            return self.callback.outcome(stream, 200, format!("there is no drain{note}"));
        }
        if cancelled.was_draining {
            self.callback.shared.ends.stop(began);
            self.callback.push(Effect::StopEnds(began));
        }
        self.callback.show_phase();
        self.callback.wants_round = true;
        match cancelling::undo(&cancelled, self.policy) {
            Some(undo) => self.answer_cancelled(stream, &cancelled, undo),
            None => self.callback.call(Call::Cancel { stream, cancelled }),
        }
    }

    fn cancellation_note(&self, cancelled: &Cancelled) -> &'static str {
        match cancelled.is_finishing {
            _ if self.callback.facts.latch.is_sealed => STAYS_SEALED,
            true => IS_FINISHING,
            false => "",
        }
    }

    pub(super) fn answer_cancelled(
        &mut self,
        stream: StreamNumber,
        cancelled: &Cancelled,
        undo: Undo,
    ) {
        let phase = self.callback.record().phase;
        let words = cancelling::cancelled_in_words(cancelled.was_draining, phase);
        let (undo, note) = (undo.text(), self.cancellation_note(cancelled));
        self.callback.log(Level::Warning, format!("{words}{undo}"));
        self.callback.wants_round = true;
        self.callback.outcome(stream, 200, format!("{words}{undo}{note}"));
    }

    /// Holds a request until counts arrive, or its time is over. Replies to a round that has just
    /// begun are good enough. Envoy's answer is needed only if the count is zero, or if there is
    /// none yet. A request for readiness needs answers that are newer than it; that of a stranger
    /// joins an answer of Envoy that is still valid, so that strangers keep nothing busy.
    fn hold_for_counts(
        &mut self,
        stream: StreamNumber,
        waits_for: WaitsFor,
        wait: Option<Millis>,
        Client { has_access, .. }: Client,
    ) {
        let is_ready = waits_for == WaitsFor::Ready;
        let usual = if is_ready { self.ready_wait() } else { STATUS_WAIT };
        let until = self.callback.now() + wait.unwrap_or(usual).min(MOST_CLIENT_WAIT);
        if is_ready && has_access {
            return self.hold_next(stream, waits_for, until);
        }
        let age_to_join = match waits_for {
            WaitsFor::Listing(_) => Millis(0),
            _ if has_access => JUST_ASKED,
            _ => ASKED_FOR_STRANGERS,
        };
        let needs = self.needs_of_a_status(age_to_join, has_access);
        self.waiting.requests.push(Waiter { stream, waits_for, until, needs, asked_at: None });
    }

    /// Holds the metrics until counts arrive.
    pub(crate) fn hold_metrics(&mut self) {
        let needs = self.needs_of_a_status(JUST_ASKED, true);
        self.waiting.metrics = Some((needs, self.callback.now() + STATUS_WAIT));
    }

    fn needs_of_a_status(&mut self, age_to_join: Millis, may_query: bool) -> Needs {
        let joins_round = self.census.age_of_round(self.callback.now()) < age_to_join;
        let holding = self.callback.facts.counts.holding(self.policy.exempts_long_lived);
        let needs_envoy =
            may_query && self.policy.has_admin() && (self.samples.is_new() || holding == 0);
        self.callback.wants_round |= !joins_round;
        Needs {
            round: self.census.round + u64::from(!joins_round),
            query: needs_envoy.then(|| self.samples.next_query()),
        }
    }

    /// Holds a request. The response must be true when it is sent, so it needs answers to later
    /// queries of the counters and Envoy.
    fn hold_next(&mut self, stream: StreamNumber, waits_for: WaitsFor, until: Moment) {
        self.callback.wants_round = true;
        let (needs, now) = (Needs::next(self.census, self.samples), self.callback.now());
        let asked_at = Some(now);
        self.waiting.requests.push(Waiter { stream, waits_for, until, needs, asked_at });
    }
}
