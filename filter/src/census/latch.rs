//! The latch: while it is closed, the filter refuses new streams, so that a signal can pass.
//!
//! One worker's gate holds it at a time. If that gate's VM dies, it opens by itself when its time
//! is over. A sealed latch never opens, because the signal that was sent cannot be undone.

use laststream_drain::facts;

use crate::host::{Control, Metric, compare_and_set_shared};

/// The shared data key of the gate that holds the latch, and of the end of its time.
const HOLDER: &str = "laststream.passing";
/// The end of the time of a latch that stays closed until the process ends.
pub(crate) const SEALED: u64 = i64::MAX as u64;

pub(crate) fn is_sealed(host: &impl Control) -> bool {
    holder(host).is_some_and(|(_, until)| until == SEALED)
}

fn holder(host: &impl Control) -> Option<(u32, u64)> {
    host.get_shared_data(HOLDER).and_then(|(text, _)| parse_holder(&text))
}

/// One worker's view of the latch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Latch {
    /// The gauge of the time until which new streams are refused. Streams read it; only the holder
    /// of the latch writes it.
    closing: Metric,
    is_held: bool,
    /// Envoy's stats matcher rejects the gauge, so streams would not see that the latch is closed.
    is_rejected: bool,
}

impl Latch {
    pub(crate) fn new(closing: Metric) -> Self {
        Self { closing, is_held: false, is_rejected: false }
    }

    /// Refuses new streams until then. False: a gate already holds the latch, this one or that of
    /// another worker.
    pub(crate) fn close(&mut self, host: &impl Control, gate: u32, until: u64) -> bool {
        let now = host.monotonic_time();
        let mut is_free = false;
        let is_changed = compare_and_set_shared(host, HOLDER, &mut |text| {
            is_free = text.and_then(parse_holder).is_none_or(|(_, until)| until <= now);
            is_free.then(|| format!("{gate} {until}").into_bytes())
        });
        let is_closed = is_free && is_changed;
        if is_closed {
            self.is_held = true;
            // A gate that was late in opening may write between the two.
            self.is_rejected = (0..2).all(|_| {
                host.record_metric(self.closing, until);
                host.get_metric(self.closing) != Some(until)
            });
            if self.is_rejected {
                self.open(host, gate);
            } else {
                self.show_other_holder(host);
            }
        }
        is_closed && !self.is_rejected
    }

    /// Opens the latch if this gate holds it. Resets the gauge first, because another gate may
    /// write it as soon as the latch is free.
    pub(crate) fn open(&mut self, host: &impl Control, gate: u32) {
        if !core::mem::replace(&mut self.is_held, false) {
            return;
        }
        let is_own = |holder: Option<(u32, u64)>| {
            holder.is_some_and(|(holder, until)| holder == gate && until != SEALED)
        };
        if is_own(holder(host)) {
            host.record_metric(self.closing, 0);
        }
        compare_and_set_shared(host, HOLDER, &mut |text| {
            is_own(text.and_then(parse_holder)).then(|| b"0 0".to_vec())
        });
        self.show_other_holder(host);
    }

    /// Another gate may have closed or sealed the latch just before this one wrote the gauge.
    fn show_other_holder(&self, host: &impl Control) {
        let now = host.monotonic_time();
        if let Some((_, until)) = holder(host).filter(|(_, until)| *until > now) {
            host.record_metric(self.closing, until);
        }
    }

    /// The latch at this moment, for the gate with this queue. It counts as closed only if the
    /// gauge says so, too: streams read that, and a gate that was late may have overwritten it.
    pub(crate) fn facts(&self, host: &impl Control, gate: Option<u32>) -> facts::Latch {
        let now = host.monotonic_time();
        let holder = holder(host).filter(|(_, until)| *until > now);
        let is_own = |(holder, _): (u32, u64)| gate == Some(holder);
        let is_shown = || host.get_metric(self.closing).is_some_and(|until| until >= now);
        facts::Latch {
            is_sealed: holder.is_some_and(|(_, until)| until == SEALED),
            is_held: self.is_held,
            is_closed_by_own: self.is_held && holder.is_some_and(is_own) && is_shown(),
            is_taken: holder.is_some_and(|holder| !is_own(holder)),
            is_rejected: self.is_rejected,
        }
    }

    /// Keeps the latch closed for this much longer from now on. False: this gate does not hold it
    /// any more, or its time is over, perhaps while the worker stood still in here.
    pub(crate) fn extend(&self, host: &impl Control, gate: u32, time: u64) -> bool {
        let now = host.monotonic_time();
        let until = now.saturating_add(time);
        let mut closed_until = None;
        let is_changed = compare_and_set_shared(host, HOLDER, &mut |text| {
            let is_closed =
                |(holder, until): &(u32, u64)| *until == SEALED || *holder == gate && *until > now;
            closed_until = text.and_then(parse_holder).filter(is_closed).map(|(_, until)| until);
            let is_earlier = closed_until.is_some_and(|closed| closed < until);
            is_earlier.then(|| format!("{gate} {until}").into_bytes())
        });
        if closed_until.is_some() && is_changed {
            self.show_other_holder(host);
        }
        is_changed && closed_until.is_some_and(|closed| closed > host.monotonic_time())
    }

    /// Refuses new streams until the process ends.
    pub(crate) fn seal(&mut self, host: &impl Control) {
        self.is_held = false;
        compare_and_set_shared(host, HOLDER, &mut |_| Some(format!("0 {SEALED}").into_bytes()));
        host.record_metric(self.closing, SEALED);
    }
}

fn parse_holder(text: &[u8]) -> Option<(u32, u64)> {
    let mut words = core::str::from_utf8(text).ok()?.split(' ');
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Latch, SEALED, is_sealed};
    use crate::fake::Fake;
    use crate::host::{Control as _, Host as _, Kind};

    #[wasm_bindgen_test(unsupported = test)]
    fn one_gate_holds_the_latch_until_its_time_is_over() {
        let host = Fake::default();
        let gauge = host.define_metric(Kind::Gauge, "closing").expect("a gauge");
        let [mut one, mut other] = [Latch::new(gauge), Latch::new(gauge)];
        host.clock.set(100);
        assert!(one.close(&host, 1, 1_600));
        assert!(!other.close(&host, 2, 1_600));
        other.open(&host, 2);
        assert_eq!(host.get_metric(gauge), Some(1_600), "only the holder opens it");
        assert!(!one.close(&host, 1, 1_600), "one signal at a time");
        one.open(&host, 1);
        assert_eq!(host.get_metric(gauge), Some(0));
        assert!(other.close(&host, 2, 1_600));
        host.clock.set(1_600);
        assert!(one.close(&host, 1, 3_100), "the VM of the other has died");
        other.open(&host, 2);
        assert_eq!(host.get_metric(gauge), Some(3_100), "the other is late and opens nothing");
    }

    /// Gate 1 was late in opening: its zero overwrote the gauge of gate 2.
    #[wasm_bindgen_test(unsupported = test)]
    fn a_latch_that_streams_do_not_see_is_not_closed() {
        let host = Fake::default();
        let gauge = host.define_metric(Kind::Gauge, "closing").expect("a gauge");
        let mut latch = Latch::new(gauge);
        host.clock.set(100);
        assert!(latch.close(&host, 2, 1_600) && latch.facts(&host, Some(2)).is_closed_by_own);
        assert!(!latch.facts(&host, Some(1)).is_closed_by_own, "another gate");
        host.record_metric(gauge, 0);
        assert!(!latch.facts(&host, Some(2)).is_closed_by_own);
        host.record_metric(gauge, 1_600);
        host.clock.set(1_600);
        assert!(!latch.facts(&host, Some(2)).is_closed_by_own, "its time is over");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_sealed_latch_stays_closed() {
        let host = Fake::default();
        let gauge = host.define_metric(Kind::Gauge, "closing").expect("a gauge");
        let [mut one, mut other] = [Latch::new(gauge), Latch::new(gauge)];
        assert!(one.close(&host, 1, 1_600) && !is_sealed(&host));
        one.seal(&host);
        one.open(&host, 1);
        host.clock.set(9_000_000);
        assert!(is_sealed(&host) && !other.close(&host, 2, 500));
        assert_eq!(host.get_metric(gauge), Some(SEALED));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn the_latch_does_not_close_if_envoy_rejects_its_gauge() {
        let host = Fake::default();
        let gauge = host.define_metric(Kind::Gauge, "closing").expect("a gauge");
        let mut latch = Latch::new(gauge);
        *host.rejects.borrow_mut() = Some("closing");
        assert!(!latch.close(&host, 1, 500) && latch.is_rejected && !latch.is_held);
        *host.rejects.borrow_mut() = None;
        assert!(Latch::new(gauge).close(&host, 2, 500), "the failed attempt left it free");
    }
}
