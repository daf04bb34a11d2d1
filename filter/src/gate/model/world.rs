//! A state of the model: the VMs, their shared state, the true state of streams and clients, and
//! the first violation.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use laststream_drain::state::{Record, Shared as DrainState};
use laststream_drain::timing::DEAD_AFTER;

use super::port::{Caller, Port, Progress};
use super::setup::{Kind, Setup};
use super::shared::{Response, Shared};
use super::worker::{Callback, Outcome, Running, Worker, gate_of, headers};
use crate::config::wire::Scope;
use crate::shared_text;
use crate::stream::Counted;

/// The state of a stream, as its client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Life {
    Future,
    /// Envoy has the stream; the filter does not have it yet, or never will.
    Arrived,
    Beginning,
    /// The filter has let the stream go on.
    Accepted {
        root: u32,
        counted: Counted,
    },
    /// Envoy does not count the stream any more, and will call the filter next; the worker stands
    /// still.
    Closed {
        root: u32,
        counted: Counted,
        at: u64,
    },
    Ending,
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct StreamState {
    pub(super) life: Life,
    /// Whether the VM that knew of the stream has died.
    pub(super) is_orphan: bool,
}

/// A request to a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RequestState {
    /// The number of calls that had been made when it arrived; none if it has not arrived.
    pub(super) sent: Option<u32>,
    /// Whether Envoy was asked after it arrived, at a moment when no stream was in flight that the
    /// filter did not know of.
    pub(super) is_confirmed: bool,
    pub(super) status: Option<u16>,
    /// The root that holds it.
    pub(super) root: u32,
}

/// Notes on a gate, independent of its own state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Notes {
    /// Whether a client has asked this gate to drain or to open, since the last drain that was
    /// cancelled.
    pub(super) was_asked: bool,
    pub(super) phase: u8,
    /// The end of the phase `serving`, by the monotonic clock.
    pub(super) drains_since: u64,
    /// The time at which the gate opened whatever is in flight; 0 if it has not.
    pub(super) open_since: u64,
    /// Whether Envoy was asked since the drain began, at a moment when no stream was in flight that
    /// the filter did not know of. Only for a last call.
    pub(super) is_confirmed: bool,
    /// Whether the drain was cancelled, and no client was told that the last call was sent.
    pub(super) is_cancelled: bool,
}

/// A signal that was sent behind the latch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Signal {
    pub(super) number: u32,
    pub(super) ends_envoy: bool,
    /// The time until which the latch stays closed even if the gate that sent it stands still.
    pub(super) latched_until: u64,
}

/// A violation of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Violation {
    OpenWithCounted,
    OpenWithUncounted,
    OpenUnasked,
    PassedWithCounted,
    PassedWithUncounted,
    AcceptedBehindLatch,
    Overdue,
    TooEarly,
    OpenForEver,
    /// Envoy fails health checks though the gate believes the opposite, or the other way round.
    HealthUnknown,
    SentAfterCancel,
    SentTwice,
    /// The last call is sent though Istio's agent has listened for longer than a refusal counts.
    EndedBesideAgent,
}

#[derive(Debug, Clone, Hash)]
#[allow(
    clippy::derived_hash_with_manual_eq,
    reason = "equal is what has the same digest; a gate does not compare itself"
)]
pub(super) struct World {
    pub(super) shared: Shared,
    /// A step changes one of them, so states share the others.
    pub(super) workers: Vec<Arc<Worker>>,
    pub(super) streams: Vec<StreamState>,
    pub(super) requests: Vec<RequestState>,
    pub(super) notes: Vec<Notes>,
    pub(super) signals: Vec<Signal>,
    /// The number of times that each event may still happen: naps, steps of the wall clock, turns
    /// of the agent, deaths, reloads.
    pub(super) naps: Vec<u8>,
    pub(super) wall_steps: u8,
    pub(super) agent_turns: u8,
    pub(super) deaths: u8,
    pub(super) reloads: Vec<u8>,
    pub(super) gate_reloads: u8,
    pub(super) failures: u8,
    /// Whether a signal has passed behind the latch.
    pub(super) has_passed: bool,
    /// Whether the latch has refused a stream.
    pub(super) has_refused: bool,
    pub(super) violation: Option<Violation>,
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        let digest = |world: &Self| {
            let mut hasher = DefaultHasher::new();
            world.hash(&mut hasher);
            hasher.finish()
        };
        digest(self) == digest(other)
    }
}

fn counts(counted: Counted) -> bool {
    matches!(counted, Counted::Plain | Counted::LongLived)
}

const WORKERS: usize = 2;
/// Counting roots are numbered from here on, gates from 0.
pub(super) const COUNTERS: u32 = 10;

impl World {
    pub(super) fn new(setup: &Setup) -> Self {
        let stream = StreamState {
            life: if setup.is_lasting { Life::Arrived } else { Life::Future },
            is_orphan: false,
        };
        let request = RequestState { sent: None, is_confirmed: false, status: None, root: 0 };
        let mut world = Self {
            shared: Shared { clock: 1_000, ..Shared::default() },
            workers: vec![Arc::default(); WORKERS],
            streams: vec![stream; setup.streams.len()],
            requests: vec![request; setup.requests.len()],
            notes: vec![Notes::default(); setup.gates.len()],
            signals: Vec::new(),
            naps: setup.naps.iter().map(|(_, times)| *times).collect(),
            wall_steps: setup.wall_steps,
            agent_turns: setup.agent_turns,
            deaths: setup.deaths,
            reloads: vec![0, setup.reloads],
            gate_reloads: setup.gate_reloads,
            failures: setup.failures,
            has_passed: false,
            has_refused: false,
            violation: None,
        };
        for worker in 0..WORKERS {
            world.start(setup, worker);
        }
        let coarse = Setup { is_fine: false, ..setup.clone() };
        for stream in 0..setup.begun {
            world.begin(&coarse, stream);
        }
        world.shared.clock += if setup.is_young { 0 } else { 3_600_000 };
        world
    }

    /// A worker, to be changed.
    pub(super) fn worker(&mut self, number: usize) -> &mut Worker {
        Arc::make_mut(&mut self.workers[number])
    }

    /// Starts a VM: configures its gates, and lets its counters enter the index.
    pub(super) fn start(&mut self, setup: &Setup, number: usize) {
        let (mut worker, now) = (Worker::default(), self.shared.clock);
        for gate in 0..setup.gates.len() {
            let caller = Caller { worker: number, root: gate as u32, ..Caller::default() };
            let port = Port::new(&mut self.shared, caller, Progress::default());
            worker.add_gate(&port, gate as u32, &setup.gate_text(gate), now);
        }
        self.workers[number] = worker.into();
        for scope in setup.scopes() {
            let root = COUNTERS + scope as u32;
            self.worker(number).add_counter(root, scope);
            self.run(setup, number, Callback::Enter(root), None);
        }
    }

    fn caller(&self, setup: &Setup, worker: usize, running: &Running) -> Caller {
        // Only streams run between two host calls, so this is pointless once all have ended.
        let is_fine = setup.is_fine && self.streams.iter().any(|stream| stream.life != Life::Over);
        let is_raced = setup.is_raced;
        let caller = |root: u32| Caller {
            worker,
            root,
            scope: self.scope_of(setup, &running.callback),
            answer: running.answer.clone(),
            is_fine,
            is_raced,
            ..Caller::default()
        };
        match running.callback {
            Callback::Begin { root, stream } | Callback::End { root, stream, .. } => {
                let kind = setup.streams[stream].kind;
                let lines: &[(&str, &str)] = match kind {
                    Kind::Long => &[("x-long", "1")],
                    Kind::Excluded => &[("x-excluded", "1")],
                    Kind::Plain | Kind::Uncounted => &[],
                };
                Caller { headers: headers(lines), holds: setup.holds(kind), ..caller(root) }
            }
            Callback::Enter(root)
            | Callback::Leave(root)
            | Callback::Message { root, .. }
            | Callback::Tick { root }
            | Callback::Request { root, .. }
            | Callback::Called { root, .. }
            | Callback::Destroy { root } => caller(root),
        }
    }

    /// Calls a VM: for one step, or to the end if no other worker can run in between.
    pub(super) fn run(
        &mut self,
        setup: &Setup,
        worker: usize,
        callback: Callback,
        answer: Option<Response>,
    ) {
        let mut progress = Progress::default();
        if let Some(scope) = self.gate_of(&callback).and_then(|gate| setup.gates.get(gate)) {
            progress.holding_at_read = self.shared.holding[*scope as usize];
        }
        self.resume(
            setup,
            worker,
            Running { callback, answer: answer.unwrap_or_default(), progress },
        );
    }

    pub(super) fn resume(&mut self, setup: &Setup, worker: usize, mut running: Running) {
        let now = self.shared.clock;
        let mut after = Worker::clone(&self.workers[worker]);
        after.running = None;
        let caller = self.caller(setup, worker, &running);
        let port = Port::new(&mut self.shared, caller, core::mem::take(&mut running.progress));
        let outcome = port.run(|port| after.call(port, &running.callback, now));
        running.progress = port.into_progress();
        let callback = running.callback.clone();
        match outcome {
            Some(_) => self.workers[worker] = after.into(),
            None => self.worker(worker).running = Some(running),
        }
        for event in core::mem::take(&mut self.shared.events) {
            self.note(setup, event);
        }
        self.note_records(setup);
        if let Some(outcome) = outcome {
            self.complete(setup, &callback, outcome);
        }
    }

    fn gate_of(&self, callback: &Callback) -> Option<usize> {
        match *callback {
            Callback::Message { root, .. }
            | Callback::Tick { root }
            | Callback::Request { root, .. }
            | Callback::Called { root, .. } => Some(gate_of(root)).filter(|_| root < COUNTERS),
            _ => None,
        }
    }

    fn scope_of(&self, setup: &Setup, callback: &Callback) -> Option<usize> {
        let gate = self.gate_of(callback)?;
        setup.gates.get(gate).map(|scope| *scope as usize)
    }

    /// Applies the result of a callback that is over.
    fn complete(&mut self, setup: &Setup, callback: &Callback, outcome: Outcome) {
        match (callback, outcome) {
            (Callback::Begin { stream, root }, Outcome::Begun { counted, goes_on }) => {
                self.streams[*stream].life =
                    if goes_on { Life::Accepted { root: *root, counted } } else { Life::Ending };
                let now = self.shared.clock;
                let is_latched = self.shared.is_sealed()
                    || self.signals.iter().any(|signal| now < signal.latched_until);
                if goes_on && counts(counted) && is_latched {
                    self.report(Violation::AcceptedBehindLatch);
                }
                if !goes_on {
                    self.has_refused = true;
                    let end = Callback::End { root: *root, stream: *stream, counted };
                    self.run(setup, setup.streams[*stream].worker, end, None);
                }
            }
            (Callback::End { stream, .. }, _) => self.streams[*stream].life = Life::Over,
            (Callback::Called { number, .. }, _) => {
                self.signals.retain(|signal| signal.ends_envoy || signal.number != *number)
            }
            (Callback::Tick { root }, _) => self.check_times(setup, gate_of(*root)),
            _ => {}
        }
    }

    pub(super) fn report(&mut self, violation: Violation) {
        self.violation = self.violation.or(Some(violation));
    }

    pub(super) fn record(&self, gate: usize) -> Record {
        let key = self
            .workers
            .iter()
            .find_map(|worker| worker.gates.iter().find(|root| gate_of(root.root) == gate))
            .map(|root| &root.gate.key);
        let text = key.and_then(|key| self.shared.data.get(key));
        shared_text::parse_or_default::<DrainState>(text.map(Vec::as_slice)).record
    }

    /// Whether a stream of that scope is in flight that holds the drain and that the filter does
    /// not know of.
    pub(super) fn uncounted(&self, setup: &Setup, scope: Scope) -> bool {
        let is_uncounted = |stream: &StreamState, kind: Kind| match stream.life {
            Life::Arrived => true,
            Life::Accepted { counted, .. } => {
                stream.is_orphan || counted == Counted::No && kind != Kind::Excluded
            }
            Life::Beginning | Life::Ending => stream.is_orphan,
            Life::Future | Life::Closed { .. } | Life::Over => false,
        };
        let mut streams = self.streams.iter().zip(&setup.streams);
        streams.any(|(stream, plan)| {
            plan.scope == scope && setup.holds(plan.kind) && is_uncounted(stream, plan.kind)
        })
    }

    /// Whether a stream of that scope goes on that was counted by a VM that has died.
    pub(super) fn orphaned(&self, setup: &Setup, scope: Scope) -> bool {
        let mut streams = self.streams.iter().zip(&setup.streams);
        streams.any(|(stream, plan)| {
            let is_counted =
                matches!(stream.life, Life::Accepted { counted, .. } if counts(counted));
            plan.scope == scope && is_counted && stream.is_orphan
        })
    }

    /// Whether a stream of that scope is in flight that holds the drain, and that the filter counts
    /// and has let go on.
    pub(super) fn counted(&self, setup: &Setup, scope: Scope) -> bool {
        let is_counted = |stream: &StreamState| match stream.life {
            Life::Accepted { counted, .. } => !stream.is_orphan && counts(counted),
            Life::Closed { counted, at, .. } => {
                counts(counted) && self.shared.clock < at + DEAD_AFTER.0
            }
            _ => false,
        };
        let mut streams = self.streams.iter().zip(&setup.streams);
        streams.any(|(stream, plan)| {
            plan.scope == scope && setup.holds(plan.kind) && is_counted(stream)
        })
    }
}
