//! The checked configuration of ends: the window of a drain, and the streams that it ends. Pure.

use super::pacing::Window;
use crate::census::ender::YOUNG;
use crate::census::{EndFilter, EndManner, Kinds, StreamKind};
use crate::config::wire::{End, EndKind, Gate, LongLivedPolicy};
use crate::gate::machine::Record;

/// The time that the last ends need besides the quiet period; milliseconds.
const SLACK: u64 = 500;
/// The shortest window, because a shorter one spreads nothing; milliseconds.
pub(crate) const SHORTEST: u64 = 1_000;

/// Times are in milliseconds.
#[derive(Debug, Clone)]
pub(crate) struct EndPolicy {
    /// Empty: the gate ends no stream by itself.
    pub(crate) kinds: Kinds,
    changing: bool,
    /// Long-lived streams are left alone, because they do not hold the drain.
    plain_only: bool,
    pub(crate) how: EndManner,
    pub(crate) over: u64,
    before_deadline: u64,
    pub(crate) at_age: Option<u64>,
    /// The time from the last end to the deadline, so that the quiet period fits in.
    pub(crate) reserve: u64,
    delay: u64,
}

impl EndPolicy {
    pub(crate) fn new(gate: &Gate) -> Self {
        let end = gate.end.clone().unwrap_or_default();
        let kinds = Kinds::of(&ended_kinds(&end));
        let delay = gate.begin.delay_ms;
        let grace = if kinds.contains(StreamKind::Websocket) { end.websocket_grace_ms } else { 0 };
        let before = end.over_ms.min(gate.deadline_ms.saturating_sub(delay));
        Self {
            kinds,
            changing: end.changing,
            plain_only: gate.long_lived == LongLivedPolicy::Exempt,
            how: EndManner {
                retry_after: [end.retry_after_s.from, end.retry_after_s.to],
                grace: end.websocket_grace_ms,
            },
            over: end.over_ms,
            before_deadline: end.before_deadline_ms.unwrap_or(before),
            at_age: end.at_age_ms,
            reserve: gate.quiet_ms.max(gate.linger_ms).saturating_add(grace + SLACK),
            delay,
        }
    }

    /// The window in which a drain ends streams. After it, all streams that are left are ended at
    /// once.
    pub(super) fn window(&self, record: &Record) -> Window {
        let begins = record.began.saturating_add(self.delay);
        let from = match self.at_age {
            Some(_) => begins,
            None => record.deadline.saturating_sub(self.before_deadline).max(begins),
        };
        let latest = record.deadline.saturating_sub(self.reserve);
        Window { from, to: from.saturating_add(self.over).min(latest).max(from) }
    }

    /// The streams that may be ended now. Counters leave young streams alone, so none of them may
    /// use up a part of an order.
    pub(super) fn filter(&self, now: u64) -> EndFilter {
        let age = self.at_age.unwrap_or(0).max(YOUNG);
        let Self { kinds, changing, plain_only, .. } = *self;
        EndFilter { kinds, changing, began_before: now.saturating_sub(age), plain_only }
    }
}

/// The kinds that are ended.
pub(crate) fn ended_kinds(end: &End) -> Vec<StreamKind> {
    use StreamKind::{EventStream, Grpc, Other, Waiting, Websocket};
    [
        (Waiting, end.waiting),
        (Websocket, end.websocket),
        (Grpc, end.grpc),
        (EventStream, end.event_stream),
        (Other, end.other),
    ]
    .into_iter()
    .filter(|(_, what)| *what == EndKind::End)
    .map(|(kind, _)| kind)
    .collect()
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::EndPolicy;
    use crate::config::wire::{End, Gate, LongLivedPolicy};

    #[wasm_bindgen_test(unsupported = test)]
    fn streams_that_are_young_or_do_not_hold_the_drain_are_left_alone() {
        let filter = |at_age_ms, long_lived| {
            let end = Some(End { at_age_ms, ..End::default() });
            EndPolicy::new(&Gate { end, long_lived, ..Gate::default() }).filter(20_000)
        };
        for (at_age, began_before) in [(None, 18_000), (Some(1_000), 18_000), (Some(15_000), 5_000)]
        {
            assert_eq!(filter(at_age, LongLivedPolicy::Wait).began_before, began_before);
        }
        assert!(filter(None, LongLivedPolicy::Exempt).plain_only);
        assert!(!filter(None, LongLivedPolicy::Wait).plain_only);
    }
}
