//! The counting side of the census: a counter's entry in the index, and its replies about its
//! streams.

use core::cell::Cell;

use super::asking::WRITE_OFF_AFTER;
use super::ender::{self, MOST_ACTIONS};
use super::ending::EndRequest;
use super::index::{IndexEntry, add_to_index, register_queue, remove_from_index};
use super::latch;
use super::listing::{self, Clock, ForEachStream, ListedStream};
use super::messages::{CountReply, CountRequest, LatchCheck};
use crate::config::wire::Scope;
use crate::host::Control;

/// How long streams check the latch after a request for that; milliseconds. A worker that does not
/// run for a while must still check it then, as long as its counter is not declared dead.
const LATCH_CHECK_LASTS: u64 = WRITE_OFF_AFTER + 5_000;

/// A counting root context, as the gate sees it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counter {
    queue: Cell<Option<u32>>,
    /// Streams that it has counted and that have not ended.
    pub(crate) in_flight: Cell<u64>,
    /// Streams among them that are long-lived.
    pub(crate) long_lived: Cell<u64>,
    /// Streams that a rule excludes from the count, and that have not ended.
    pub(crate) excluded: Cell<u64>,
    /// The time until which each new stream must check the latch; 0 for never. It expires by
    /// itself, because a gate that dies must not refuse streams for ever.
    pub(crate) checks_latch_until: Cell<u64>,
    /// Streams that began before this are already marked as long-lived.
    long_lived_before: Cell<u64>,
    /// How far the wall clock was ahead of the monotonic clock when the counter last had no stream
    /// in flight.
    clock_offset: Cell<Option<u64>>,
    /// Whether the root context ticks because the frame filter is closing WebSockets.
    has_closing: Cell<bool>,
}

impl Counter {
    /// Enters the index, once. Called from the first tick, because a VM that Envoy creates only to
    /// validate a configuration never ticks; and from the first stream, which may come earlier.
    pub(crate) fn enter_index(&self, host: &impl Control, scope: Scope, configuration: u32) {
        if self.queue.get().is_some() {
            return;
        }
        let Some(queue) = register_queue(host) else { return };
        self.queue.set(Some(queue));
        let since = host.monotonic_time();
        // A signal may be on its way, from a gate that could not ask this counter yet.
        let is_sealed = latch::is_sealed(host);
        self.check_latch(host, if is_sealed { LatchCheck::Always } else { LatchCheck::ForAWhile });
        self.read_clocks(host);
        add_to_index(host, IndexEntry::new(queue, scope, since, configuration));
    }

    /// Leaves the index: this root context counts nothing any more.
    pub(crate) fn leave_index(&self, host: &impl Control) {
        if let Some(queue) = self.queue.take() {
            remove_from_index(host, &[queue]);
        }
    }

    /// Resets the WebSockets that the frame filter has not closed in time, and sets the next tick.
    pub(crate) fn on_tick<S: ListedStream>(
        &self,
        host: &impl Control,
        for_each: ForEachStream<'_, S>,
    ) {
        let next = ender::reset_overdue(host, for_each);
        self.has_closing.set(next.is_some());
        host.set_tick_period(next.unwrap_or(0));
    }

    /// Extends the time and never shortens it, because another worker's gate may have asked for
    /// more.
    fn check_latch(&self, host: &impl Control, check: LatchCheck) {
        let until = match check {
            LatchCheck::Off => 0,
            LatchCheck::ForAWhile => host.monotonic_time().saturating_add(LATCH_CHECK_LASTS),
            LatchCheck::Always => u64::MAX,
        };
        self.checks_latch_until.set(self.checks_latch_until.get().max(until));
    }

    /// Reads both clocks. The offset is renewed while no stream is in flight, because a step of the
    /// wall clock does not matter then.
    fn read_clocks(&self, host: &impl Control) -> Clock {
        let now = host.monotonic_time();
        let offset = host.wall_clock().saturating_sub(now);
        if self.in_flight.get() == 0 || self.clock_offset.get().is_none() {
            self.clock_offset.set(Some(offset));
        }
        Clock::new(now, offset, self.clock_offset.get().unwrap_or(offset))
    }

    /// Replies to every gate that has sent a request.
    pub(crate) fn reply_to_all<S: ListedStream>(
        &self,
        host: &impl Control,
        for_each: ForEachStream<'_, S>,
    ) {
        let Some(queue) = self.queue.get() else { return };
        let mut actions = MOST_ACTIONS;
        while let Some(message) = host.dequeue(queue) {
            if let Some(request) = CountRequest::parse(&message) {
                self.reply(host, queue, request, for_each);
            } else if let Some(request) = EndRequest::parse(&message) {
                let after = ender::end_streams(host, queue, &mut actions, request, for_each);
                // Setting the period again would postpone the next tick.
                if after.has_closing && !self.has_closing.replace(true) {
                    host.set_tick_period(ender::CLOSING_TICK);
                }
                // Each message has a callback of its own, so this one may leave some behind.
                if after.has_rest {
                    return;
                }
            }
        }
    }

    fn reply<S: ListedStream>(
        &self,
        host: &impl Control,
        queue: u32,
        request: CountRequest,
        for_each: ForEachStream<'_, S>,
    ) {
        self.check_latch(host, request.latch_check);
        let clock = self.read_clocks(host);
        if request.long_lived_before > self.long_lived_before.get() {
            self.long_lived_before.set(request.long_lived_before);
            listing::mark_long_lived(host, for_each, clock, request.long_lived_before);
        }
        let reply = CountReply {
            queue,
            in_flight: self.in_flight.get(),
            long_lived: self.long_lived.get(),
            excluded: self.excluded.get(),
            round: request.round,
            requested_at: request.sent_at,
        };
        let mut text = reply.to_text();
        if request.list_limit > 0 {
            let CountRequest { list_limit, plain_only, .. } = request;
            let oldest = listing::oldest(host, for_each, clock, list_limit, plain_only);
            text = format!("{text}\n{oldest}");
        }
        host.enqueue(request.reply_to, text.as_bytes());
    }
}

/// The fields of a counter as plain values: a state of the model checker.
#[cfg(all(test, not(target_arch = "wasm32")))]
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct CounterFields {
    pub(crate) queue: Option<u32>,
    numbers: [u64; 5],
    clock_offset: Option<u64>,
}

#[cfg(all(test, not(target_arch = "wasm32")))]
impl Counter {
    fn numbers(&self) -> [&Cell<u64>; 5] {
        let Self { in_flight, long_lived, excluded, .. } = self;
        [in_flight, long_lived, excluded, &self.checks_latch_until, &self.long_lived_before]
    }

    pub(crate) fn fields(&self) -> CounterFields {
        CounterFields {
            queue: self.queue.get(),
            numbers: self.numbers().map(Cell::get),
            clock_offset: self.clock_offset.get(),
        }
    }

    pub(crate) fn restore(&self, fields: &CounterFields) {
        self.numbers().iter().zip(fields.numbers).for_each(|(cell, number)| cell.set(number));
        self.queue.set(fields.queue);
        self.clock_offset.set(fields.clock_offset);
    }
}
