//! The checked configuration of ends, and the window of a drain. Pure.

use super::pacing::Window;
use crate::census::{EndManner, Kinds, StreamKind};
use crate::config::wire::{End, EndKind, Gate};
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
    pub(crate) changing: bool,
    pub(crate) how: EndManner,
    pub(crate) over: u64,
    pub(crate) before_deadline: u64,
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
