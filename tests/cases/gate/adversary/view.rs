//! The knowledge of the clients and the upstream about the streams: which client certainly waits,
//! since when, and how each stream ended. Nothing here comes from the gate or from Envoy's
//! statistics.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// The number of a stream in its round.
pub(super) type Id = usize;

/// The state of a stream, as its client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Sent; whether Envoy has the request is not known.
    Sent,
    /// Envoy certainly has the request, and the answer is not there.
    Waiting(Instant),
    /// The whole answer is there.
    Answered(u16),
    /// The connection ended, or the answer broke off.
    Cut,
    /// The client itself has left.
    Left,
}

/// What a stream holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holds {
    /// The gates, by number, that are responsible for it.
    pub(super) gates: [bool; 2],
    /// Whether a gate that knows the filter's rules need not wait for it.
    pub(super) is_exempt: bool,
}

#[derive(Clone, Debug)]
struct Seen {
    what: String,
    state: State,
    /// When that state began, if it is an end.
    ended: Option<Instant>,
    holds: Holds,
    /// Whether the filter sees it at once, so that the latch refuses it.
    is_counted: bool,
}

#[derive(Default)]
pub(super) struct View(Mutex<Vec<Seen>>);

impl View {
    pub(super) fn sent(&self, what: String, holds: Holds, is_counted: bool) -> Id {
        let mut streams = self.streams();
        streams.push(Seen { what, state: State::Sent, ended: None, holds, is_counted });
        streams.len() - 1
    }

    pub(super) fn waits(&self, id: Id) {
        self.change(
            id,
            |state| if state == State::Sent { State::Waiting(Instant::now()) } else { state },
        );
    }

    /// An end is final: a client that has left sees no cut afterwards.
    pub(super) fn ended(&self, id: Id, end: State) {
        self.change(
            id,
            |state| if matches!(state, State::Sent | State::Waiting(_)) { end } else { state },
        );
    }

    pub(super) fn state(&self, id: Id) -> State {
        self.streams()[id].state
    }

    /// Whether the stream went on after that moment.
    pub(super) fn outlasted(&self, id: Id, at: Instant) -> bool {
        self.streams()[id].ended.is_none_or(|ended| ended > at)
    }

    /// Streams of this gate whose clients have waited since before that moment.
    pub(super) fn waiting(&self, gate: usize, before: Instant) -> Vec<Id> {
        let streams = self.streams();
        let waits = |seen: &Seen| {
            seen.holds.gates[gate] && matches!(seen.state, State::Waiting(since) if since < before)
        };
        streams.iter().enumerate().filter(|(_, seen)| waits(seen)).map(|(id, _)| id).collect()
    }

    /// [`View::waiting`] at `now`, without streams that only Envoy counts and that began after it
    /// was asked: nothing refuses those.
    pub(super) fn waiting_since_query(&self, gate: usize, now: Instant, asked: Instant) -> Vec<Id> {
        let before = self.waiting(gate, asked);
        let is_counted = |id: &Id| self.streams()[*id].is_counted;
        let waiting = self.waiting(gate, now).into_iter();
        waiting.filter(|id| is_counted(id) || before.contains(id)).collect()
    }

    pub(super) fn is_exempt(&self, id: Id) -> bool {
        self.streams()[id].holds.is_exempt
    }

    /// Streams of any gate, or of none, that have not ended.
    pub(super) fn open(&self) -> Vec<Id> {
        let streams = self.streams();
        let is_open = |seen: &Seen| matches!(seen.state, State::Sent | State::Waiting(_));
        streams.iter().enumerate().filter(|(_, seen)| is_open(seen)).map(|(id, _)| id).collect()
    }

    pub(super) fn describe(&self, ids: &[Id]) -> String {
        let streams = self.streams();
        let state = |state| match state {
            State::Waiting(since) => format!("waiting for {:?}", since.elapsed()),
            other => format!("{other:?}"),
        };
        let one = |&id: &Id| format!("{id} ({}, {})", streams[id].what, state(streams[id].state));
        ids.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn count(&self) -> usize {
        self.streams().len()
    }

    fn change(&self, id: Id, next: impl FnOnce(State) -> State) {
        let stream = &mut self.streams()[id];
        stream.state = next(stream.state);
        if !matches!(stream.state, State::Sent | State::Waiting(_)) {
            stream.ended = stream.ended.or(Some(Instant::now()));
        }
    }

    fn streams(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
