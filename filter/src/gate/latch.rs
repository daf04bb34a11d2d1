//! The latch: closed while a signal passes, so that no stream begins meanwhile. One worker's gate
//! has it at a time, and it opens by itself when that one has died. Sealed, it stays closed for
//! good: a signal was sent that cannot be taken back.

use crate::host::{Control, Metric, change};

/// Who has it, and until when.
const HOLDER: &str = "laststream.passing";
/// So much longer than the calls themselves may take; milliseconds.
const SLACK: u64 = 1_000;
/// For good.
pub(crate) const SEALED: u64 = i64::MAX as u64;

/// Whether the latch is closed for good.
pub(crate) fn is_sealed(host: &impl Control) -> bool {
    holder(host).is_some_and(|(_, until)| until == SEALED)
}

fn holder(host: &impl Control) -> Option<(u32, u64)> {
    host.shared(HOLDER).and_then(|(text, _)| read(&text))
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Latch {
    /// Until when new streams are refused, for the streams to read. Only who has the latch touches
    /// it.
    closing: Metric,
    held_by_me: bool,
    /// Envoy's stats matcher rejects the gauge: streams would not see that it is closed.
    rejected: bool,
}

impl Latch {
    pub(crate) fn new(closing: Metric) -> Self {
        Self { closing, held_by_me: false, rejected: false }
    }

    pub(crate) fn is_mine(&self) -> bool {
        self.held_by_me
    }

    pub(crate) fn is_rejected(&self) -> bool {
        self.rejected
    }

    /// Refuses new streams from now on. False: another signal has the latch, of this worker or of
    /// another.
    pub(crate) fn close(&mut self, host: &impl Control, me: u32, patience: u64) -> bool {
        let now = host.now();
        let until = now.saturating_add(patience).saturating_add(SLACK);
        let mut free = false;
        let changed = change(host, HOLDER, &mut |text| {
            free = text.and_then(read).is_none_or(|(_, until)| until <= now);
            free.then(|| format!("{me} {until}").into_bytes())
        });
        let closed = free && changed;
        if closed {
            self.held_by_me = true;
            host.set(self.closing, until);
            self.rejected = host.value(self.closing) != Some(until);
            if self.rejected {
                self.open(host, me);
            }
        }
        closed && !self.rejected
    }

    /// The gauge first: once the latch is free, the gauge is somebody else's.
    pub(crate) fn open(&mut self, host: &impl Control, me: u32) {
        if !core::mem::replace(&mut self.held_by_me, false) {
            return;
        }
        let mine = |holder: Option<(u32, u64)>| {
            holder.is_some_and(|(holder, until)| holder == me && until != SEALED)
        };
        if mine(holder(host)) {
            host.set(self.closing, 0);
        }
        change(host, HOLDER, &mut |text| mine(text.and_then(read)).then(|| b"0 0".to_vec()));
    }

    /// Whether it is closed by this gate now, and stays so for a while.
    pub(crate) fn is_closed_by(&self, host: &impl Control, me: u32) -> bool {
        let now = host.now();
        self.held_by_me && holder(host).is_some_and(|(holder, until)| holder == me && until > now)
    }

    /// Refuses new streams for good.
    pub(crate) fn seal(&mut self, host: &impl Control) {
        self.held_by_me = false;
        change(host, HOLDER, &mut |_| Some(format!("0 {SEALED}").into_bytes()));
        host.set(self.closing, SEALED);
    }
}

fn read(text: &[u8]) -> Option<(u32, u64)> {
    let mut words = core::str::from_utf8(text).ok()?.split(' ');
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Latch, SEALED, is_sealed};
    use crate::fake::Fake;
    use crate::host::{Host as _, Kind};

    #[wasm_bindgen_test(unsupported = test)]
    fn one_has_it_until_it_runs_out() {
        let host = Fake::default();
        let gauge = host.metric(Kind::Gauge, "closing").expect("a gauge");
        let [mut one, mut other] = [Latch::new(gauge), Latch::new(gauge)];
        host.clock.set(100);
        assert!(one.close(&host, 1, 500));
        assert!(!other.close(&host, 2, 500));
        other.open(&host, 2);
        assert_eq!(host.value(gauge), Some(1_600), "who does not have it does not open it");
        assert!(!one.close(&host, 1, 500), "one signal at a time");
        one.open(&host, 1);
        assert_eq!(host.value(gauge), Some(0));
        assert!(other.close(&host, 2, 500));
        host.clock.set(1_600);
        assert!(one.close(&host, 1, 500), "the other died");
        other.open(&host, 2);
        assert_eq!(host.value(gauge), Some(3_100), "late, the other opens nothing");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn sealed_it_stays_closed() {
        let host = Fake::default();
        let gauge = host.metric(Kind::Gauge, "closing").expect("a gauge");
        let [mut one, mut other] = [Latch::new(gauge), Latch::new(gauge)];
        assert!(one.close(&host, 1, 500) && !is_sealed(&host));
        one.seal(&host);
        one.open(&host, 1);
        host.clock.set(9_000_000);
        assert!(is_sealed(&host) && !other.close(&host, 2, 500));
        assert_eq!(host.value(gauge), Some(SEALED));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn does_not_close_where_streams_would_not_see_it() {
        let host = Fake::default();
        let gauge = host.metric(Kind::Gauge, "closing").expect("a gauge");
        let mut latch = Latch::new(gauge);
        *host.rejects.borrow_mut() = Some("closing");
        assert!(!latch.close(&host, 1, 500) && latch.is_rejected() && !latch.is_mine());
        *host.rejects.borrow_mut() = None;
        assert!(Latch::new(gauge).close(&host, 2, 500), "it was left free");
    }
}
