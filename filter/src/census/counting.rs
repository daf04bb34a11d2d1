//! The counting side of the census: a counter's entry in the index, and its replies about its
//! streams.

use core::cell::Cell;

use super::asking::WRITE_OFF_AFTER;
use super::ender::{self, MOST_ACTIONS, Owner};
use super::ending::EndRequest;
use super::index::{self, IndexEntry, add_to_index, register_queue, remove_from_index};
use super::latch;
use super::listing::{self, Clock, ForEachStream, ListedStream};
use super::messages::{CountReply, CountRequest, LatchCheck};
use crate::config::wire::Scope;
use crate::host::Control;

/// How long streams check the latch after a request for that; milliseconds. A worker that does not
/// run for a while must still check it then, as long as its counter is not declared dead.
const LATCH_CHECK_LASTS: u64 = WRITE_OFF_AFTER + 5_000;
/// The delay of the tick that enters the index again; milliseconds.
const SOON: u32 = 10;

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
    /// The last [`CountRequest::older_than`], and the first context that is not older.
    older_than: Cell<(u64, u64)>,
    /// How far the wall clock was ahead of the monotonic clock when the counter last had no stream
    /// in flight.
    clock_offset: Cell<Option<u64>>,
    /// Whether the root context ticks because the frame filter is closing WebSockets.
    has_closing: Cell<bool>,
}

impl Counter {
    /// Enters the index, unless it is there. Called from the first tick, because a VM that Envoy
    /// creates only to validate a configuration never ticks; and from each stream, the first of
    /// which may come earlier.
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

    /// Forgets the queue if a gate has removed this counter from the index, because its worker was
    /// not running for long. Then the next tick or stream enters the index again. Only a counter
    /// that has been silent is removed, and its first request after that is old.
    fn forget_removed(&self, host: &impl Control, queue: u32, request: CountRequest, now: u64) {
        let is_old = now.saturating_sub(request.sent_at) >= WRITE_OFF_AFTER;
        if is_old && !index::contains(host, queue) {
            self.queue.set(None);
            host.set_tick_period(SOON);
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
        knows_kinds: bool,
        for_each: ForEachStream<'_, S>,
    ) {
        let Some(queue) = self.queue.get() else { return };
        let mut actions = MOST_ACTIONS;
        while let Some(message) = host.dequeue(queue) {
            if let Some(request) = CountRequest::parse(&message) {
                self.reply(host, queue, request, for_each);
            } else if let Some(request) = EndRequest::parse(&message) {
                let clock = self.read_clocks(host);
                let owner = Owner { queue, knows_kinds, actions: &mut actions };
                let after = ender::end_streams(host, owner, request, clock, for_each);
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
        let older = self.count_older(host, for_each, clock, request.older_than);
        let reply = CountReply {
            queue,
            in_flight: self.in_flight.get(),
            long_lived: self.long_lived.get(),
            excluded: self.excluded.get(),
            round: request.round,
            requested_at: request.sent_at,
            older,
        };
        let mut text = reply.to_text();
        if request.list_limit > 0 {
            let CountRequest { list_limit, plain_only, .. } = request;
            let oldest = listing::oldest(host, for_each, clock, list_limit, plain_only);
            text = format!("{text}\n{oldest}");
        }
        host.enqueue(request.reply_to, text.as_bytes());
        self.forget_removed(host, queue, request, clock.now);
    }
}

impl Counter {
    /// Counts the streams in flight that began before the moment. Their times are read once for
    /// each moment, because that costs two host calls for each stream; streams that begin later
    /// have higher numbers.
    fn count_older<S: ListedStream>(
        &self,
        host: &impl Control,
        for_each: ForEachStream<'_, S>,
        clock: Clock,
        moment: u64,
    ) -> u64 {
        if moment == 0 {
            return 0;
        }
        if self.older_than.get().0 != moment {
            self.older_than.set((moment, listing::first_not_older(host, for_each, clock, moment)));
        }
        let (_, first) = self.older_than.get();
        let mut older = 0;
        for_each(&mut |context, stream| {
            older += u64::from(u64::from(context) < first && stream.is_in_flight());
        });
        older
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

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::super::index::{entries, remove_from_index};
    use super::super::messages::{CountReply, CountRequest, LatchCheck};
    use super::WRITE_OFF_AFTER;
    use crate::fake::Fake;
    use crate::host::Control as _;
    use crate::lifecycle::{HttpStream, Root};

    /// Streams that began at these times; the first has the context 10.
    fn counter(host: &Fake, began: &[u64]) -> (Root, Vec<HttpStream>) {
        host.register_queue("gate").expect("a queue");
        let mut root = Root::new(1);
        assert!(root.on_configure(host, b"{}"), "{:?}", host.lines);
        root.on_tick(host);
        let mut streams = Vec::new();
        for (context, began) in (10_u32..).zip(began) {
            host.clock.set(*began);
            let nanoseconds = (began * 1_000_000).to_le_bytes().to_vec();
            let key = (context, "request\0time".into());
            host.set_properties.borrow_mut().insert(key, nanoseconds);
            let mut stream = root.create_stream(context);
            stream.on_request_headers(host);
            streams.push(stream);
        }
        (root, streams)
    }

    fn request(sent_at: u64, older_than: u64) -> CountRequest {
        CountRequest {
            reply_to: 1,
            round: 1,
            latch_check: LatchCheck::Off,
            sent_at,
            long_lived_before: 0,
            list_limit: 0,
            plain_only: false,
            older_than,
        }
    }

    fn older(host: &Fake, root: &Root, older_than: u64) -> u64 {
        let request = request(host.clock.get(), older_than);
        assert!(host.enqueue(2, request.to_text().as_bytes()));
        root.on_queue_ready(host, 2);
        let reply = host.dequeue(1).expect("a reply");
        let (reply, _) = CountReply::parse(&reply).expect("a reply");
        assert_eq!(reply.long_lived, 0, "no stream becomes long-lived");
        reply.older
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn streams_older_than_a_moment_are_counted_and_later_ones_never() {
        let host = Fake::default();
        let (root, mut streams) = counter(&host, &[1_000, 2_000, 3_000, 4_000]);
        host.clock.set(5_000);
        for (moment, expected) in
            [(0, 0), (1_000, 0), (1_001, 1), (3_000, 2), (9_000, 4), (3_000, 2)]
        {
            assert_eq!(older(&host, &root, moment), expected, "{moment}");
        }
        let reads = host.reads.get();
        assert_eq!(older(&host, &root, 3_000), 2);
        assert_eq!(host.reads.get(), reads, "times are read once for each moment");
        streams[0].on_delete(&host);
        assert_eq!(older(&host, &root, 3_000), 1);
        let mut later = root.create_stream(20);
        later.on_request_headers(&host);
        assert_eq!(older(&host, &root, 3_000), 1, "it began later");
        assert_eq!(older(&host, &root, 9_000), 3, "its time is not known");
    }
    /// A gate has removed the counter from the index, because its worker did not run.
    #[wasm_bindgen_test(unsupported = test)]
    fn a_counter_that_was_removed_enters_the_index_again() {
        let host = Fake::default();
        let (root, _streams) = counter(&host, &[1_000]);
        host.clock.set(700_000);
        for (age, expected) in [(WRITE_OFF_AFTER - 1, None), (WRITE_OFF_AFTER, Some(3))] {
            remove_from_index(&host, &[2]);
            host.enqueue(2, request(700_000 - age, 0).to_text().as_bytes());
            host.period.set(0);
            root.on_queue_ready(&host, 2);
            assert_eq!(host.period.get() > 0, expected.is_some(), "{age}");
            root.on_tick(&host);
            let queues: Vec<u32> = entries(&host).iter().map(|entry| entry.queue).collect();
            assert_eq!(queues, expected.map_or_else(Vec::new, |queue| vec![queue]), "{age}");
        }
        host.enqueue(3, request(700_000 - WRITE_OFF_AFTER, 0).to_text().as_bytes());
        root.on_queue_ready(&host, 3);
        root.on_tick(&host);
        assert_eq!(entries(&host).len(), 1, "one that is there stays");
    }
}
