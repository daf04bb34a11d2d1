//! The one value that the workers of a gate share. A worker changes a copy of it, and what it does
//! then is valid only if the copy was stored in place of the value that the worker had read.

use super::agent::Agent;
use super::ends::EndProgress;
use super::moments::{Moment, Queue};
use super::observation::App;
use super::pacing::QueryPacing;
use super::record::Record;
use super::routes::Routes;
use super::step::Step;
use super::timing::LEAD_LASTS;

/// See the module. Each gate has its own, because two gates on one Envoy wait for different
/// streams, and neither may open the other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Shared {
    /// The drain.
    pub record: Record,
    /// The queries to Envoy.
    pub pacing: QueryPacing,
    /// The streams that drains end.
    pub ends: EndProgress,
    /// The call that tells the app of the drain.
    pub notify: Step,
    /// The last answer of the app.
    pub app: Option<AppReply>,
    /// The newest total number of requests by Envoy's own count. All workers use this one number,
    /// because a difference between two workers' answers would look like a request that has begun.
    pub total: Total,
    /// Whether Envoy's sums are proven to lack streams that the counters have, so that nothing can
    /// be subtracted from them.
    pub sums_lack_streams: bool,
    /// The gate that asks for all, during a drain.
    pub lead: Option<Lead>,
    /// When a serving gate last evaluated for its metrics.
    pub evaluated_at: Option<Moment>,
    /// Istio's agent, if the drain starts with its stop.
    pub agent: Agent,
    /// The routes that refuse new requests, if Envoy's own count is the only one.
    pub routes: Routes,
}

/// The app's answer to one query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AppReply {
    /// The beginning of the query.
    pub asked_at: Moment,
    /// Whether the app is there.
    pub state: App,
}

/// How many requests, and TCP connections, there ever were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Total {
    /// The beginning of the query that showed it.
    pub at: Moment,
    /// Requests; 0 as long as the number is not needed.
    pub requests: u64,
    /// TCP connections; 0 if they do not hold the drain.
    pub connections: u64,
}

impl Total {
    pub(crate) fn sum(self) -> u64 {
        self.requests.saturating_add(self.connections)
    }
}

/// One worker's gate asks the counters and Envoy for all, as long as no held request needs newer
/// answers elsewhere. Otherwise the cost of a drain would grow with the square of the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lead {
    /// Its queue.
    pub gate: Queue,
    /// The end of its lead, unless it extends that.
    pub until: Moment,
}

impl Shared {
    /// The app's last answer. One from before this drain is not an answer about it.
    pub(crate) fn app_since_the_drain_began(&self) -> Option<AppReply> {
        self.app.filter(|reply| reply.asked_at >= self.record.began)
    }

    /// Whether this gate leads.
    pub(crate) fn is_led_by(&self, gate: Option<Queue>, now: Moment) -> bool {
        self.lead.is_some_and(|lead| Some(lead.gate) == gate && now < lead.until)
    }

    /// Lets this gate lead, or go on, if no other one does.
    pub(crate) fn follow_or_lead(&mut self, gate: Option<Queue>, now: Moment) {
        let is_other = |lead: Lead| Some(lead.gate) != gate && now < lead.until;
        // More than half of the time is left: not every tick stores it anew.
        let is_young = |lead: Lead| Some(lead.gate) == gate && (lead.until - now) * 2 > LEAD_LASTS;
        if !self.lead.is_some_and(|lead| is_other(lead) || is_young(lead)) {
            self.lead_from_now_on(gate, now);
        }
    }

    /// Lets this gate lead, whichever did.
    pub(crate) fn lead_from_now_on(&mut self, gate: Option<Queue>, now: Moment) {
        self.lead = gate.map(|gate| Lead { gate, until: now + LEAD_LASTS });
    }

    /// Keeps the newest total.
    pub(crate) fn note_total(&mut self, total: Total) {
        if total.at >= self.total.at {
            self.total = total;
        }
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Moment, Queue, Shared};

    #[wasm_bindgen_test(unsupported = test)]
    fn one_gate_leads_until_it_is_silent_or_another_takes_over() {
        let (one, other) = (Some(Queue(1)), Some(Queue(2)));
        let mut shared = Shared::default();
        shared.follow_or_lead(one, Moment(1_000));
        shared.follow_or_lead(other, Moment(1_100));
        assert!(shared.is_led_by(one, Moment(1_100)) && !shared.is_led_by(other, Moment(1_100)));
        let stored = shared.lead;
        shared.follow_or_lead(one, Moment(1_200));
        assert_eq!(shared.lead, stored, "it is not stored at each tick");
        shared.follow_or_lead(one, Moment(3_000));
        assert!(shared.is_led_by(one, Moment(5_499)), "extended");
        shared.follow_or_lead(other, Moment(5_500));
        assert!(shared.is_led_by(other, Moment(5_500)), "the first one is silent");
        shared.lead_from_now_on(one, Moment(5_600));
        assert!(!shared.is_led_by(other, Moment(5_600)));
    }
}
