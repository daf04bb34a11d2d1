//! The counting side of the census: a counter's entry in the index, and its replies about its
//! streams.

use core::cell::Cell;

use laststream_drain::counts::{IndexEntry, LatchCheck, Reply, Request};
use laststream_drain::state::{Moment, Queue};
use laststream_drain::timing::{
    CLOSING_TICK, DEAD_AFTER, LATCH_CHECK_LASTS, NEW_COUNTER_CHECKS, SHORT_TICK,
};

use super::index::{self, Index, add_to_index, register_queue, remove_from_index};
use super::latch;
use super::listing::{self, ForEachStream, ListedStream};
use super::messages::reply_to_text;
use super::stream_ender::{self, MOST_ACTIONS};
use crate::config::wire::Scope;
use crate::host::Control;
use crate::shared_text::{parse_message, to_text};

/// A counting root context, as the gate sees it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counter {
    queue: Cell<Option<Queue>>,
    /// Where gates find it.
    index: Index,
    /// Streams that it has counted and that have not ended.
    pub(crate) in_flight: Cell<u64>,
    /// Streams among them that are long-lived.
    pub(crate) long_lived: Cell<u64>,
    /// Streams that a rule excludes from the count, and that have not ended.
    pub(crate) excluded: Cell<u64>,
    /// The time until which each new stream must check the latch. It expires by itself, because a
    /// gate that dies must not refuse streams without a limit.
    pub(crate) checks_latch_until: Cell<Option<Moment>>,
    /// Streams that began before this are already marked as long-lived.
    long_lived_before: Cell<Option<Moment>>,
    /// Whether the root context ticks because the frame filter is closing WebSockets.
    has_closing: Cell<bool>,
}

/// The end of a check that never ends.
const FOR_EVER: Moment = Moment(u64::MAX);

impl Counter {
    /// What replies for a worker without counters.
    pub(crate) fn beat() -> Self {
        Self { index: Index::BEATS, ..Self::default() }
    }

    /// Its queue, once it has entered the index.
    pub(crate) fn queue(&self) -> Option<Queue> {
        self.queue.get()
    }

    /// Enters the index, unless it is there. Called from the first tick, because a VM that Envoy
    /// creates only to validate a configuration never ticks; and from each stream, the first of
    /// which may come earlier.
    pub(crate) fn enter_index(&self, host: &impl Control, scope: Scope) {
        if self.queue.get().is_some() {
            return;
        }
        let Some(queue) = register_queue(host) else { return };
        self.queue.set(Some(queue));
        let since = host.monotonic_time();
        // A signal may be on its way, from a gate that could not ask this counter yet.
        let is_sealed = latch::is_sealed(host);
        let until = if is_sealed { FOR_EVER } else { since + NEW_COUNTER_CHECKS };
        self.checks_latch_until.set(self.checks_latch_until.get().max(Some(until)));
        add_to_index(host, self.index, IndexEntry { queue, scope, since, written_off: None });
    }

    /// Leaves the index: this root context no longer counts.
    pub(crate) fn leave_index(&self, host: &impl Control) {
        if let Some(queue) = self.queue.take() {
            remove_from_index(host, self.index, &[queue]);
        }
    }

    /// Forgets the queue if a gate has removed this counter from the index, because its worker was
    /// not running for long. Then the next tick or stream enters the index again. Only a counter
    /// that has been silent is removed, and its first request after that is old.
    fn forget_removed(&self, host: &impl Control, queue: Queue, request: Request) {
        let is_old = host.monotonic_time() - request.sent_at >= DEAD_AFTER;
        if is_old && !index::contains(host, self.index, queue) {
            self.queue.set(None);
            host.set_tick_period(SHORT_TICK.0 as u32);
        }
    }

    /// Resets the WebSockets that the frame filter has not closed in time, and sets the next tick.
    pub(crate) fn on_tick<S: ListedStream>(
        &self,
        host: &impl Control,
        for_each: ForEachStream<'_, S>,
    ) {
        let next = stream_ender::reset_overdue(host, for_each);
        self.has_closing.set(next.is_some());
        host.set_tick_period(next.unwrap_or(0));
    }

    /// Extends the time and never shortens it, because another worker's gate may have asked for
    /// more.
    fn check_latch(&self, host: &impl Control, check: LatchCheck) {
        let until = match check {
            LatchCheck::Off => return,
            LatchCheck::ForAWhile => host.monotonic_time() + LATCH_CHECK_LASTS,
            LatchCheck::Always => FOR_EVER,
        };
        self.checks_latch_until.set(self.checks_latch_until.get().max(Some(until)));
    }

    /// Replies to every gate that has sent a request.
    pub(crate) fn reply_to_all<S: ListedStream>(
        &self,
        host: &impl Control,
        for_each: ForEachStream<'_, S>,
    ) {
        let Some(queue) = self.queue.get() else { return };
        let mut actions = MOST_ACTIONS;
        while let Some(message) = host.dequeue(queue.0) {
            let Some(request) = parse_message(&message) else { continue };
            // Each message has a separate callback, so this one may leave some behind.
            if self.reply(host, queue, request, &mut actions, for_each) {
                return;
            }
        }
    }

    /// Ends the streams that the request orders to end, and replies. True: the rest of the order is
    /// in the counter's own queue, for another callback.
    fn reply<S: ListedStream>(
        &self,
        host: &impl Control,
        queue: Queue,
        request: Request,
        actions: &mut u64,
        for_each: ForEachStream<'_, S>,
    ) -> bool {
        self.check_latch(host, request.latch_check);
        if let Some(moment) = request.long_lived_before
            && self.long_lived_before.get() < Some(moment)
        {
            self.long_lived_before.set(Some(moment));
            listing::mark_long_lived(host, for_each, moment);
        }
        let outcome = request
            .order
            .map(|order| stream_ender::end_streams(host, order, &request, actions, for_each));
        let reply = Reply {
            queue,
            in_flight: self.in_flight.get(),
            long_lived: self.long_lived.get(),
            excluded: self.excluded.get(),
            round: request.round,
            requested_at: request.sent_at,
            endable: outcome.map(|outcome| outcome.endable),
        };
        let Request { list_limit, plain_only, .. } = request;
        let listing =
            (list_limit > 0).then(|| listing::oldest(host, for_each, list_limit, plain_only));
        let text = reply_to_text(&reply, listing.as_deref());
        host.enqueue(request.reply_to.0, text.as_bytes());
        self.forget_removed(host, queue, request);
        let Some(outcome) = outcome else { return false };
        // Setting the period again would postpone the next tick.
        if outcome.has_closing && !self.has_closing.replace(true) {
            host.set_tick_period(CLOSING_TICK.0 as u32);
        }
        if let Some(rest) = outcome.rest {
            let rest = Request { order: Some(rest), list_limit: 0, ..request };
            host.enqueue(queue.0, to_text(&rest).as_bytes());
        }
        outcome.rest.is_some()
    }
}

/// The fields of a counter as plain values: a state of the model checker.
#[cfg(all(test, not(target_arch = "wasm32")))]
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct CounterFields {
    pub(crate) queue: Option<Queue>,
    numbers: [u64; 3],
    moments: [Option<Moment>; 2],
}

#[cfg(all(test, not(target_arch = "wasm32")))]
impl Counter {
    fn numbers(&self) -> [&Cell<u64>; 3] {
        [&self.in_flight, &self.long_lived, &self.excluded]
    }

    fn moments(&self) -> [&Cell<Option<Moment>>; 2] {
        [&self.checks_latch_until, &self.long_lived_before]
    }

    pub(crate) fn fields(&self) -> CounterFields {
        CounterFields {
            queue: self.queue.get(),
            numbers: self.numbers().map(Cell::get),
            moments: self.moments().map(Cell::get),
        }
    }

    pub(crate) fn restore(&self, fields: &CounterFields) {
        self.queue.set(fields.queue);
        self.numbers().iter().zip(fields.numbers).for_each(|(cell, number)| cell.set(number));
        self.moments().iter().zip(fields.moments).for_each(|(cell, moment)| cell.set(moment));
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::super::index::{Index, entries, remove_from_index};
    use super::{DEAD_AFTER, Moment, Queue, Request, to_text};
    use crate::fake::Fake;
    use crate::host::Control as _;
    use crate::lifecycle::Root;

    /// A gate has removed the counter from the index, because its worker did not run.
    #[wasm_bindgen_test(unsupported = test)]
    fn a_counter_that_was_removed_enters_the_index_again() {
        let host = Fake::default();
        host.clock.set(1_000);
        let mut root = Root::new(1);
        assert!(root.on_configure(&host, b"{}"));
        root.on_tick(&host);
        let own = || {
            entries(&host, Index::COUNTERS).iter().map(|entry| entry.queue).collect::<Vec<Queue>>()
        };
        let queue = own()[0];
        let ask = |queue: Queue, silence: u64| {
            let sent_at = Moment(700_000 - silence);
            let request = Request { reply_to: Queue(77), sent_at, ..Request::default() };
            host.enqueue(queue.0, to_text(&request).as_bytes());
            host.period.set(0);
            root.on_queue_ready(&host, queue.0);
            host.period.get() > 0
        };
        host.clock.set(700_000);
        remove_from_index(&host, Index::COUNTERS, &[queue]);
        assert!(!ask(queue, DEAD_AFTER.0 - 1), "it was not silent for long");
        assert!(ask(queue, DEAD_AFTER.0), "a tick comes");
        root.on_tick(&host);
        let again = own()[0];
        assert_ne!(again, queue);
        assert!(!ask(again, DEAD_AFTER.0), "one that is there stays");
        assert_eq!(own(), [again]);
    }
}
