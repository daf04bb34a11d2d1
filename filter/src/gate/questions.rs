//! How often Envoy is asked for its own count. An answer keeps Envoy's main thread busy, with many
//! clusters for seconds, so the gates of all workers ask one after the other, and no sooner than
//! some times what the last answer took.

use crate::host::{Control, change};
use crate::parse;

/// Where all gates share it.
const KEY: &str = "laststream.questions";
/// So many times what an answer takes is left between two questions: a fifth of the main thread's
/// time at most.
const SPARE: u64 = 5;
/// A question that is open for so long, and for so many times what the last answer took, was asked
/// by a VM that died; milliseconds.
const OPEN: u64 = 1_000;
const OPEN_FOR: u64 = 10;

/// The questions so far; times are milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Questions {
    /// When the last one was asked.
    asked: u64,
    /// When it was answered, or given up; 0 while it is not.
    answered: u64,
    /// How long the last answer took.
    took: u64,
    /// How long all answers took together.
    busy: u64,
}

impl Questions {
    pub(crate) fn read(host: &impl Control) -> Self {
        host.shared(KEY).map(|(text, _)| Self::of(Some(&text))).unwrap_or_default()
    }

    fn of(text: Option<&[u8]>) -> Self {
        let numbers = || parse::numbers(&mut core::str::from_utf8(text?).ok()?.split(' '));
        numbers().map_or_else(Self::default, |[asked, answered, took, busy]| Self {
            asked,
            answered,
            took,
            busy,
        })
    }

    fn write(self) -> Vec<u8> {
        let Self { asked, answered, took, busy } = self;
        format!("{asked} {answered} {took} {busy}").into_bytes()
    }

    /// Whether one is on its way.
    fn is_open(self, now: u64) -> bool {
        let longest = self.took.saturating_mul(OPEN_FOR).saturating_add(OPEN);
        self.asked > 0 && self.answered == 0 && now.saturating_sub(self.asked) < longest
    }

    /// How long Envoy's main thread has been busy with them, up to now.
    pub(crate) fn busy(self, now: u64) -> u64 {
        let open = if self.is_open(now) { now.saturating_sub(self.asked) } else { 0 };
        self.busy.saturating_add(open)
    }

    /// Whether the next one may be asked.
    pub(crate) fn may_ask(self, now: u64) -> bool {
        !self.is_open(now) && now >= self.asked.saturating_add(SPARE.saturating_mul(self.took))
    }

    /// How long the next one may have to wait, and its answer take.
    pub(crate) fn longest_wait(self) -> u64 {
        self.took.saturating_mul(SPARE + 1)
    }

    /// Claims the next question. False: it is too early.
    pub(crate) fn begin(host: &impl Control) -> bool {
        let now = host.now();
        let mut begins = false;
        let changed = change(host, KEY, &mut |text| {
            let last = Self::of(text);
            begins = last.may_ask(now);
            begins.then(|| Self { asked: now, answered: 0, ..last }.write())
        });
        begins && changed
    }

    /// The question was answered, or failed.
    pub(crate) fn end(host: &impl Control) {
        let now = host.now();
        change(host, KEY, &mut |text| {
            let last = Self::of(text);
            let took = now.saturating_sub(last.asked);
            (last.answered == 0).then(|| {
                Self { answered: now.max(1), took, busy: last.busy.saturating_add(took), ..last }
                    .write()
            })
        });
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::Questions;
    use crate::fake::Fake;

    #[wasm_bindgen_test(unsupported = test)]
    fn one_at_a_time_and_not_too_often() {
        let host = Fake::default();
        host.clock.set(1_000);
        assert!(Questions::begin(&host));
        assert!(!Questions::begin(&host), "one is on its way");
        host.clock.set(1_040);
        assert_eq!(Questions::read(&host).busy(1_040), 40);
        Questions::end(&host);
        assert!(!Questions::begin(&host), "too early");
        host.clock.set(1_200);
        assert!(Questions::begin(&host));
        host.clock.set(2_599);
        assert!(!Questions::begin(&host), "it may take longer than the last");
        host.clock.set(2_600);
        assert!(Questions::begin(&host), "the gate that asked has died");
        Questions::end(&host);
        assert_eq!(Questions::read(&host).busy(9_000), 40);
    }
}
