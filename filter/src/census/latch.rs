//! The latch: while it is closed, the filter refuses new streams, so that a signal can pass.
//!
//! One worker's gate holds it at a time, for a short lease that it extends. If that gate's VM dies,
//! the latch opens by itself. A sealed latch never opens, because the signal that was sent cannot
//! be undone.

use laststream_drain::counts;
use laststream_drain::state::{Moment, Queue};
use laststream_drain::timing::LATCH_LEASE;

use crate::host::{Control, Metric};
use crate::shared_text::{self, Numbers, Words, fields};

/// The shared data key of the gate that holds the latch, and of the end of its lease.
const HOLDER: &str = "laststream.latch";
/// The end of a lease that lasts until the process ends. It fits into a gauge.
pub(crate) const SEALED: Moment = Moment(i64::MAX as u64);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Lease {
    gate: Queue,
    until: Moment,
}

fields! { Lease { gate, until } }

pub(crate) fn is_sealed(host: &impl Control) -> bool {
    lease(host).until == SEALED
}

fn lease(host: &impl Control) -> Lease {
    shared_text::parse_or_default(host.get_shared_data(HOLDER).map(|(text, _)| text).as_deref())
}

impl Lease {
    fn is_open(self, now: Moment) -> bool {
        self.until <= now
    }

    /// Whether this gate holds the latch, and can open it.
    fn is_of(self, gate: Queue) -> bool {
        self.gate == gate && self.until != SEALED
    }
}

/// One worker's view of the latch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Latch {
    /// The gauge of the time until which new streams are refused. Streams read it; only the holder
    /// of the latch writes it. None if routes refuse them, and Envoy is told that by a call.
    closing: Option<Metric>,
    is_held: bool,
    /// Envoy's stats matcher rejects the gauge, so streams would not see that the latch is closed.
    is_rejected: bool,
}

impl Latch {
    pub(crate) fn new(closing: Option<Metric>) -> Self {
        Self { closing, is_held: false, is_rejected: false }
    }

    /// Refuses new streams from now on. False: a gate already holds the latch, this one or that of
    /// another worker.
    pub(crate) fn close(&mut self, host: &impl Control, gate: Queue) -> bool {
        let now = host.monotonic_time();
        let until = now + LATCH_LEASE;
        let mut is_free = false;
        let is_stored = shared_text::update(host, HOLDER, &mut |lease: &mut Lease| {
            is_free = lease.is_open(now);
            if is_free {
                *lease = Lease { gate, until };
            }
        });
        let is_closed = is_free && is_stored;
        if is_closed {
            self.is_held = true;
            // A gate that was late in opening may write between the two.
            self.is_rejected = (0..2).all(|_| {
                self.show(host, until.0);
                !self.shows(host, |shown| shown == until.0)
            });
            if self.is_rejected {
                self.open(host, gate);
            } else {
                self.show_lease(host);
            }
        }
        is_closed && !self.is_rejected
    }

    /// Opens the latch if this gate holds it. Resets the gauge first, because another gate may
    /// write it as soon as the latch is free.
    pub(crate) fn open(&mut self, host: &impl Control, gate: Queue) {
        if !core::mem::replace(&mut self.is_held, false) {
            return;
        }
        if lease(host).is_of(gate) {
            self.show(host, 0);
        }
        shared_text::update(host, HOLDER, &mut |lease: &mut Lease| {
            if lease.is_of(gate) {
                *lease = Lease::default();
            }
        });
        self.show_lease(host);
    }

    fn show(&self, host: &impl Control, until: u64) {
        if let Some(gauge) = self.closing {
            host.record_metric(gauge, until);
        }
    }

    /// Whether the gauge, if there is one, shows such a time.
    fn shows(&self, host: &impl Control, is_right: impl Fn(u64) -> bool) -> bool {
        self.closing.is_none_or(|gauge| host.get_metric(gauge).is_some_and(is_right))
    }

    /// Another gate may have closed or sealed the latch just before this one wrote the gauge.
    fn show_lease(&self, host: &impl Control) {
        let lease = lease(host);
        if !lease.is_open(host.monotonic_time()) {
            self.show(host, lease.until.0);
        }
    }

    /// The latch at this moment, for the gate with this queue. It counts as closed only if the
    /// gauge says so, too: streams read that, and a gate that was late may have overwritten it.
    pub(crate) fn facts(&self, host: &impl Control, gate: Option<Queue>) -> counts::Latch {
        let now = host.monotonic_time();
        let lease = Some(lease(host)).filter(|lease| !lease.is_open(now));
        let is_own = |lease: Lease| gate == Some(lease.gate);
        let is_shown = || self.shows(host, |until| until >= now.0);
        counts::Latch {
            is_sealed: lease.is_some_and(|lease| lease.until == SEALED),
            is_held: self.is_held,
            is_closed_by_own: self.is_held && lease.is_some_and(is_own) && is_shown(),
            is_taken: lease.is_some_and(|lease| !is_own(lease)),
            is_rejected: self.is_rejected,
        }
    }

    /// Keeps the latch closed. False: this gate no longer holds it, or its lease is over,
    /// perhaps while the worker stood still in here.
    pub(crate) fn extend(&self, host: &impl Control, gate: Queue) -> bool {
        let now = host.monotonic_time();
        let mut closed_until = None;
        let is_stored = shared_text::update(host, HOLDER, &mut |lease: &mut Lease| {
            let is_closed = lease.until == SEALED || lease.gate == gate && !lease.is_open(now);
            closed_until = is_closed.then_some(lease.until);
            // More than half of the lease is left: not each tick stores it.
            let is_young = (lease.until - now) * 2 > LATCH_LEASE;
            if is_closed && !is_young {
                lease.until = now + LATCH_LEASE;
            }
        });
        if closed_until.is_some() && is_stored {
            self.show_lease(host);
        }
        is_stored && closed_until.is_some_and(|until| until > host.monotonic_time())
    }

    /// Refuses new streams until the process ends.
    pub(crate) fn seal(&mut self, host: &impl Control) {
        self.is_held = false;
        shared_text::update(host, HOLDER, &mut |lease: &mut Lease| {
            *lease = Lease { gate: Queue::default(), until: SEALED };
        });
        self.show(host, SEALED.0);
    }
}

#[cfg(test)]
mod tests {
    use laststream_drain::state::Queue;
    use laststream_drain::timing::LATCH_LEASE;
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Latch, SEALED, is_sealed};
    use crate::fake::Fake;
    use crate::host::{Control as _, Host as _, Metric, MetricKind};

    const LEASE: u64 = LATCH_LEASE.0;
    const ONE: Queue = Queue(1);
    const OTHER: Queue = Queue(2);

    /// A host at the time 100, and its gauge.
    fn at_100() -> (Fake, Metric) {
        let host = Fake::default();
        let gauge = host.define_metric(MetricKind::Gauge, "closing").expect("a gauge");
        host.clock.set(100);
        (host, gauge)
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn one_gate_holds_the_latch_until_its_lease_is_over() {
        let (host, gauge) = at_100();
        let [mut one, mut other] = [Latch::new(Some(gauge)), Latch::new(Some(gauge))];
        assert!(one.close(&host, ONE) && !other.close(&host, OTHER));
        other.open(&host, OTHER);
        assert_eq!(host.get_metric(gauge), Some(100 + LEASE), "only the holder opens it");
        assert!(!one.close(&host, ONE), "one signal at a time");
        one.open(&host, ONE);
        assert_eq!(host.get_metric(gauge), Some(0));
        assert!(other.close(&host, OTHER));
        host.clock.set(100 + LEASE);
        assert!(one.close(&host, ONE), "the VM of the other has died");
        other.open(&host, OTHER);
        let until = Some(100 + 2 * LEASE);
        assert_eq!(host.get_metric(gauge), until, "the other is late and opens nothing");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn the_holder_extends_its_lease_in_time() {
        let (host, gauge) = at_100();
        let mut latch = Latch::new(Some(gauge));
        assert!(latch.close(&host, ONE) && !latch.extend(&host, OTHER));
        for (now, until) in [(200, 100 + LEASE), (1_500, 1_500 + LEASE), (2_900, 2_900 + LEASE)] {
            host.clock.set(now);
            assert!(latch.extend(&host, ONE), "at {now}");
            assert_eq!(host.get_metric(gauge), Some(until), "at {now}");
        }
        host.clock.set(2_900 + LEASE);
        assert!(!latch.extend(&host, ONE), "its lease is over");
    }

    /// Gate 1 was late in opening: its zero overwrote the gauge of gate 2.
    #[wasm_bindgen_test(unsupported = test)]
    fn a_latch_that_streams_do_not_see_is_not_closed() {
        let (host, gauge) = at_100();
        let mut latch = Latch::new(Some(gauge));
        assert!(latch.close(&host, OTHER));
        assert!(latch.facts(&host, Some(OTHER)).is_closed_by_own);
        assert!(!latch.facts(&host, Some(ONE)).is_closed_by_own, "another gate");
        host.record_metric(gauge, 0);
        assert!(!latch.facts(&host, Some(OTHER)).is_closed_by_own);
        host.record_metric(gauge, 100 + LEASE);
        host.clock.set(100 + LEASE);
        assert!(!latch.facts(&host, Some(OTHER)).is_closed_by_own, "its lease is over");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_sealed_latch_stays_closed() {
        let (host, gauge) = at_100();
        let [mut one, mut other] = [Latch::new(Some(gauge)), Latch::new(Some(gauge))];
        assert!(one.close(&host, ONE) && !is_sealed(&host));
        one.seal(&host);
        one.open(&host, ONE);
        host.clock.set(9_000_000);
        assert!(is_sealed(&host) && !other.close(&host, OTHER) && other.extend(&host, OTHER));
        assert_eq!(host.get_metric(gauge), Some(SEALED.0));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn the_latch_does_not_close_if_envoy_rejects_its_gauge() {
        let (host, gauge) = at_100();
        let mut latch = Latch::new(Some(gauge));
        *host.rejects.borrow_mut() = Some("closing");
        assert!(!latch.close(&host, ONE) && latch.is_rejected && !latch.is_held);
        *host.rejects.borrow_mut() = None;
        assert!(Latch::new(Some(gauge)).close(&host, OTHER), "the failed attempt left it free");
    }
}
