//! Every time of the protocol, each with its reason, and the relations between them. No other file
//! of the filter has a time. The table in docs/gate.md is made from this one.

use super::moments::Millis;

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Time {
    /// The name of the constant.
    pub name: &'static str,
    /// Milliseconds, or a factor.
    pub value: u64,
    /// The reason.
    pub reason: &'static str,
}

macro_rules! times {
    ($table:ident $type:ident: $($(#[doc = $reason:literal])+ $name:ident = $value:expr;)+) => {
        $($(#[doc = $reason])+ pub const $name: $type = times!($type $value);)+
        /// The rows of this group, in the order of the source.
        pub const $table: &[Time] =
            &[$(Time { name: stringify!($name), value: $value, reason: concat!($($reason),+) }),+];
    };
    (Millis $value:expr) => { Millis($value) };
    (u64 $value:expr) => { $value };
}

times! { TIMES Millis:
    /// The first tick of a counter, at which it enters the index: a VM that Envoy creates only to
    /// validate a configuration never ticks.
    FIRST_TICK = 10;
    /// The tick while a command, a signal, the last call or a request for fresh counts waits.
    SHORT_TICK = 10;
    /// The tick while the gate drains, heals, ends streams, keeps the latch closed or holds
    /// requests.
    TICK = 100;
    /// The tick while the gate is open, because Envoy may outlive the drain.
    TICK_WHEN_OPEN = 1_000;
    /// The interval between two queries to Envoy or to the app. A tick can come a little early.
    QUERY_INTERVAL = 50;
    /// The time by which the tick of a periodic evaluation can come early.
    EVALUATION_SLACK = 500;
    /// The interval of log lines that show why the gate waits.
    LOG_INTERVAL = 1_000;

    /// How long a reply of a counter may take, and how long it is valid. A worker may be busy.
    REPLY_TIMEOUT = 1_000;
    /// A counter that is silent for this long is dead. A worker that merely stands still for less
    /// still owns its streams: it would let one begin behind a signal, and takes its own from the
    /// count when it goes on. A hook of a drain that has reached zero waits for its reply until the
    /// deadline.
    DEAD_AFTER = 10_000;
    /// A dead counter, or frame filter, leaves its index after this silence.
    FORGOTTEN_AFTER = 600_000;
    /// A status joins the last round of requests to the counters if that began less than this ago.
    JUST_ASKED = 5;
    /// The same for a client without access, which must not keep the workers busy.
    ASKED_FOR_STRANGERS = 1_000;
    /// How long the gate looks for a leaked count after it has seen signs of one.
    HEALING_LASTS = 15_000;

    /// How long streams check the latch after a gate has asked for that. Longer than a worker or
    /// the whole process can stand still, so that it checks before it reads any message.
    LATCH_CHECK_LASTS = 3_600_000;
    /// The same for a counter that has just begun, which each gate asks in its next round.
    NEW_COUNTER_CHECKS = 15_000;
    /// How long the latch stays closed after its gate last extended it, which each tick does. New
    /// streams are refused for as long if the VM of that gate dies.
    LATCH_LEASE = 2_000;
    /// How long a gate leads after it last extended its lead: it alone asks the counters and Envoy
    /// for a drain that no held request needs them for.
    LEAD_LASTS = 2_500;

    /// An answer of Envoy is valid for this, and for `VALID_FACTOR` times as long as it took.
    VALID = 100;
    /// The longest pause between two queries to Envoy. After a push of configuration, which makes
    /// an answer slow, a drain must not be without a query up to its deadline.
    LONGEST_PAUSE = 10_000;
    /// A query that runs for longer is given up, and another may begin; see `ABANDONED_FACTOR`.
    /// Twice as long after each query without an answer: Envoy's main thread may be busy.
    ABANDONED_AFTER = 200;
    /// The same as long as no query was answered, because an answer can take seconds.
    FIRST_ABANDONED_AFTER = 1_000;
    /// The pause after a query that has failed; twice as long after each further one.
    FAILED_PAUSE = 100;
    /// The longest such pause.
    MOST_FAILED_PAUSE = 1_000;
    /// How long after its limit the answer to a query can still be handled.
    QUERY_SLACK = 1_000;

    /// How long a status, or a listing, waits for counts that are late, if the client does not say
    /// how long it waits.
    STATUS_WAIT = 1_000;
    /// The longest wait that a client can ask for.
    MOST_CLIENT_WAIT = 60_000;
    /// How long a request for readiness waits for fresh counts if Envoy answers quickly, and the
    /// client does not say how long it waits. `pilot-agent wait` waits for 500 ms by default.
    READY_WAIT = 400;
    /// The longest such time if Envoy answers slowly.
    MOST_READY_WAIT = 4_000;
    /// How long a signal waits until every counter makes its streams check the latch.
    SIGNAL_WAIT = 1_000;
    /// A hook is held for this long after the deadline, and a drain that reached zero just before
    /// it stays drained for as long: the last call may be under way.
    AFTER_DEADLINE = 5_000;
    /// The pause before the app is called again, for each try so far.
    NOTIFY_PAUSE = 1_000;

    /// The interval between two questions to Istio's agent, for a gate that starts with it.
    AGENT_INTERVAL = 1_000;
    /// The same while refusals are being counted.
    FAST_AGENT_INTERVAL = 250;
    /// The time by which a question can come early: ticks do.
    AGENT_SLACK = 50;
    /// How long a question to the agent may run. A busy agent is not one that has stopped.
    AGENT_PATIENCE = 1_000;
    /// How long the agent's port must refuse before the drain begins.
    AGENT_STOPS_AFTER = 460;
    /// How old the agent's last refusal may be when the last call is made.
    REFUSAL_VALID_FOR = 2_500;

    /// The interval between two orders to end streams.
    END_INTERVAL = 50;
    /// The interval between two questions of a gate that has no streams to end now. The gates of
    /// all workers tick in a drain, and each would ask each counter on every tick.
    END_ASK_INTERVAL = 400;
    /// An older order ends nothing, and an older number of endable streams counts for nothing: both
    /// were made for another state of the drain.
    END_VALID_FOR = 1_000;
    /// The most time whose ends are caught up at once after a pause.
    END_CATCH_UP = 1_000;
    /// The time that the last ends need besides the quiet period.
    END_SLACK = 500;
    /// The shortest window for ends, because a shorter one spreads nothing.
    END_SHORTEST = 1_000;
    /// Younger streams are left alone: Envoy takes many ends of young streams on one connection for
    /// an attack, and closes the connection.
    YOUNG = 2_000;
    /// The interval between two notices to the frame filters. A notice is valid for twice as long
    /// plus the grace period.
    NOTICE_INTERVAL = 1_000;
    /// A counter's tick while the frame filter closes its WebSockets.
    CLOSING_TICK = 100;
    /// The same while some of them are overdue.
    OVERDUE_TICK = 10;
}

times! { FACTORS u64:
    /// So many refusals in a row of the agent's port begin the drain.
    REFUSALS_THAT_STOP = 3;
    /// So many answers in a row of the agent call that drain off.
    ANSWERS_THAT_STAY = 2;
    /// The time limit of a query for Envoy's statistics, in time limits of other calls: Envoy goes
    /// through all its statistics.
    STATS_PATIENCE = 10;
    /// How long a signal waits behind the latch for the counts, in times that Envoy's last answer
    /// took; at least `REPLY_TIMEOUT`. New streams are refused meanwhile.
    LATCHED_FOR = 2;
    /// A claimed call is tried by another worker after this many of its time limits.
    RECLAIM_FACTOR = 2;
    /// A call is tried this often.
    TRIES = 3;
    /// An answer of Envoy is valid for this many times as long as it took, because the next one may
    /// not come sooner.
    VALID_FACTOR = 6;
    /// A query that takes this many times as long as the last one is given up.
    ABANDONED_FACTOR = 10;
    /// The most messages to a counter since its last reply. A dead VM never reads its queue; a live
    /// one reads all messages once it runs.
    MOST_UNREAD = 8;
    /// The most answers in one callback. Envoy nests them, and a few hundred overflow the stack.
    MOST_ANSWERS = 64;
    /// The most dead counters in the index; the oldest leave it first. A VM that dies again and
    /// again must not make each round longer.
    MOST_DEAD = 64;
    /// The most streams that one counter is ordered to end at once, in several callbacks.
    MOST_ORDERED = 512;
}

// Ticks and intervals.
const _: () = assert!(SHORT_TICK.0 < QUERY_INTERVAL.0 && QUERY_INTERVAL.0 < TICK.0);
const _: () = assert!(END_INTERVAL.0 < TICK.0 && TICK.0 < END_ASK_INTERVAL.0);
const _: () = assert!(TICK_WHEN_OPEN.0 < AFTER_DEADLINE.0);
// A counter is late, then dead, then healed, then forgotten.
const _: () = assert!(REPLY_TIMEOUT.0 < DEAD_AFTER.0);
const _: () = assert!(DEAD_AFTER.0 + REPLY_TIMEOUT.0 < HEALING_LASTS.0);
const _: () = assert!(HEALING_LASTS.0 < FORGOTTEN_AFTER.0);
// A message of a round arrives before the next tick asks again, unless a worker is behind.
const _: () = assert!(JUST_ASKED.0 < SHORT_TICK.0 && ASKED_FOR_STRANGERS.0 >= REPLY_TIMEOUT.0);
// A worker that wakes before its counter is dead, or long after, still checks the latch.
const _: () = assert!(LATCH_CHECK_LASTS.0 > FORGOTTEN_AFTER.0 + DEAD_AFTER.0);
const _: () = assert!(NEW_COUNTER_CHECKS.0 > DEAD_AFTER.0 + REPLY_TIMEOUT.0);
// The slowest tick of a gate extends its latch and its lead in time.
const _: () = assert!(LATCH_LEASE.0 > 2 * TICK.0 && LEAD_LASTS.0 > 2 * TICK_WHEN_OPEN.0);
// An answer of Envoy outlives the pause before the next query, so a drained gate stays so.
const _: () = assert!(VALID_FACTOR >= 3 && VALID.0 >= QUERY_INTERVAL.0);
const _: () = assert!(ABANDONED_FACTOR > VALID_FACTOR && ABANDONED_AFTER.0 > VALID.0);
const _: () = assert!(FAILED_PAUSE.0 < MOST_FAILED_PAUSE.0);
// Clients get an answer before their own time is over.
const _: () = assert!(READY_WAIT.0 < 500 && MOST_READY_WAIT.0 < 5_000);
const _: () = assert!(STATUS_WAIT.0 >= REPLY_TIMEOUT.0 && SIGNAL_WAIT.0 >= REPLY_TIMEOUT.0);
// Refusals are counted within a question's interval, and the next question renews the last one.
const _: () = assert!(FAST_AGENT_INTERVAL.0 * 2 >= AGENT_STOPS_AFTER.0);
const _: () = assert!(REFUSAL_VALID_FOR.0 > AGENT_INTERVAL.0 + AGENT_PATIENCE.0);
// An order is valid until the next question, and a notice until the notice after the next.
const _: () = assert!(END_VALID_FOR.0 >= 2 * END_ASK_INTERVAL.0);
const _: () = assert!(END_CATCH_UP.0 >= END_VALID_FOR.0 && END_SHORTEST.0 >= END_CATCH_UP.0);
const _: () = assert!(OVERDUE_TICK.0 < CLOSING_TICK.0 && YOUNG.0 > END_VALID_FOR.0);
