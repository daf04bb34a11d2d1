//! What the end of each call changes.

use super::apply::Apply;
use super::callback::Callback;
use super::notify;
use crate::counts::{AdminFault, Stats};
use crate::requests::words::NOT_ALL;
use crate::requests::{Answer, Call, Effect, Ended, Level, Listings};
use crate::state::{CallEnd, Millis, Phase, StreamNumber};
use crate::steps::cancelling::Undo;

const NO_ANSWER: &str = "Envoy's admin interface did not answer";

impl Apply<'_, '_, '_> {
    pub(super) fn call_has_ended(&mut self, call: Call, ended: Ended) {
        let (end, now) = (ended.end, self.callback.now());
        let seals = call.ends_envoy() && end.may_have_arrived();
        match call {
            Call::Begin => {
                let is_undone = self.callback.record().begin_has_ended(end, now);
                if is_undone && self.policy.can_undo() {
                    self.callback.call(Call::UndoAgain); // Envoy may have got it after the undo
                }
                log_failure(end, "the call that makes traffic leave failed", self.callback);
            }
            Call::UndoAgain => self.callback.record().undo_has_ended(self.policy, end, now),
            Call::Cancel { stream, cancelled } => {
                self.callback.record().undo_has_ended(self.policy, end, now);
                let undo = if end.is_success() { Undo::Done } else { Undo::Failed };
                self.answer_cancelled(stream, &cancelled, undo);
                let is_serving = self.callback.record().phase == Phase::Serving;
                if cancelled.may_begin_late && end.is_success() && is_serving {
                    self.callback.call(Call::UndoAgain);
                }
            }
            Call::Finish => {
                // One that may have arrived is not made again: the process may end at any time.
                let end_of_tries = if seals { CallEnd::Answered(200) } else { end };
                self.callback.record().finish.record(end_of_tries, now, Millis(0));
                log_failure(end, "the last call failed", self.callback);
                if seals { self.callback.seal() } else { self.callback.push(Effect::OpenLatch) }
            }
            Call::Signal { stream, is_latched, .. } => {
                if seals {
                    self.callback.seal();
                } else if is_latched {
                    self.callback.push(Effect::OpenLatch);
                }
                self.answer_signal(stream, is_latched, ended);
            }
            Call::Stats { query, .. } => self.stats_have_arrived(query, &ended),
            Call::Clusters { stream, limit } => self.answer_clusters(stream, limit, ended),
            Call::Agent { asked } => self.agent_has_answered(asked, &ended),
            Call::Routes { refuse: false, told } => self.routes_have_answered(told, end),
            Call::Routes { refuse: true, .. } => {} // see `Worker::hear_of_routes`
            Call::App => self.app.has_answered(&ended, self.callback),
            Call::Notify { began } => notify::has_ended(began, end, self.callback),
        }
    }

    fn answer_signal(&mut self, stream: StreamNumber, is_latched: bool, ended: Ended) {
        let Ended { end, body } = ended;
        match end {
            CallEnd::Answered(status) => {
                self.callback.answer(stream, Answer::FromEnvoy(status, body))
            }
            CallEnd::TimedOut => self.callback.answer(stream, Answer::FromEnvoy(504, body)),
            // The latch had opened, or Envoy does not know the cluster.
            CallEnd::NotSent if is_latched && body.is_empty() => {
                self.callback.outcome(stream, 503, NOT_ALL)
            }
            CallEnd::NotSent | CallEnd::Reset => self.callback.outcome(stream, 502, NO_ANSWER),
        }
    }

    fn answer_clusters(&mut self, stream: StreamNumber, limit: usize, ended: Ended) {
        if !ended.end.is_success() {
            return self.callback.outcome(stream, 502, NO_ANSWER);
        }
        // Without this query's own cluster.
        let own = format!("cluster.{}.", self.policy.admin);
        let clusters = ended.body.replace(&own, "");
        let listings = Listings {
            now: self.callback.now(),
            state: self.callback.record().phase,
            holding: 0,
            is_complete: false,
            limit,
            listings: Vec::new(),
            clusters: Some(clusters),
        };
        self.callback.answer(stream, Answer::Streams(listings));
    }

    /// Handles Envoy's statistics. If Envoy has requests, or its total was needed, the counters are
    /// asked again, because only they know which of Envoy's requests do not hold the drain.
    fn stats_have_arrived(&mut self, query: u64, ended: &Ended) {
        let answer = match ended.end {
            CallEnd::Answered(200) => {
                self.samples.read(query, &ended.body, self.policy).ok_or(AdminFault::Foreign)
            }
            CallEnd::Answered(status) => Err(AdminFault::Status(status)),
            CallEnd::TimedOut => Err(AdminFault::TimedOut),
            CallEnd::Reset => Err(AdminFault::Reset),
            CallEnd::NotSent => Err(AdminFault::NotSent),
        };
        let (now, round) = (self.callback.now(), self.census.round + 1);
        let began = self.samples.end_query(query, now, round, answer);
        if let Some((began, owner)) = began.zip(self.callback.facts.queue) {
            self.callback.shared.pacing.end(began, owner, now, ended.end.is_success());
        }
        let noted = self.callback.shared.total;
        let total = answer.is_ok().then(|| self.samples.needed_total(noted)).flatten();
        if let Some(total) = total {
            self.callback.shared.note_total(total);
        }
        let is_active = |stats: Stats| stats.active.is_some_and(|active| active > 0);
        self.callback.wants_round |= total.is_some() || answer.is_ok_and(is_active);
    }
}

fn log_failure(end: CallEnd, line: &str, callback: &mut Callback<'_>) {
    if !end.is_success() {
        callback.log(Level::Warning, line);
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Call, CallEnd, Millis, Phase, StreamNumber};
    use crate::requests::{Command, Event};
    use crate::sim::{IDLE, Sim};
    use crate::state::{BeginCall, DrainPolicy, Finish, Step};

    /// A gate whose drain has just begun.
    fn draining() -> Sim {
        let (begin, finish) = (BeginCall::Nothing, Finish::Quit);
        let mut sim = Sim::new(DrainPolicy { begin, finish, ..DrainPolicy::default() });
        sim.request(StreamNumber(2), Command::Drain);
        sim
    }

    /// A tick after ten milliseconds, with all replies. Every query ends like this.
    fn step(sim: &mut Sim, (end, body): (CallEnd, &str)) {
        sim.now = sim.now + Millis(10);
        sim.on(Event::Tick);
        sim.reply();
        if let Some(query) = sim.query() {
            sim.end_call(query, end, body);
            sim.reply();
        }
    }

    /// The process may end at any time after a call that may have arrived.
    #[wasm_bindgen_test(unsupported = test)]
    fn a_last_call_that_may_have_arrived_seals_the_latch_and_is_not_made_again() {
        for (end, seals) in [
            (CallEnd::Answered(200), true),
            (CallEnd::TimedOut, true),
            (CallEnd::Reset, true),
            (CallEnd::Answered(503), false),
            (CallEnd::NotSent, false),
        ] {
            let mut sim = draining();
            let latest = sim.now + Millis(3_000);
            while !sim.calls.contains(&Call::Finish) {
                assert!(sim.now < latest, "no last call");
                step(&mut sim, (CallEnd::Answered(200), IDLE));
            }
            let finish = sim.calls.iter().position(|call| *call == Call::Finish);
            sim.end_call(finish.expect("under way"), end, "");
            let is_done = sim.shared.record.finish == Step::Done;
            assert_eq!((sim.latch.is_sealed, is_done), (seals, seals), "{end:?}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_query_that_has_failed_is_no_answer() {
        for (end, body) in [
            (CallEnd::TimedOut, ""),
            (CallEnd::Reset, ""),
            (CallEnd::NotSent, ""),
            (CallEnd::Answered(503), IDLE),
            (CallEnd::Answered(200), "nothing of Envoy"),
        ] {
            let mut sim = draining();
            let until = sim.now + Millis(5_000);
            while sim.now < until {
                step(&mut sim, (end, body));
                assert_eq!(sim.shared.record.phase, Phase::Draining, "{end:?} {body}");
            }
        }
    }
}
