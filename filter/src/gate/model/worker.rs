//! One worker: its VM with gates and counters, which are the module's own code, and the callback
//! that is running.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use laststream_drain::state::{Queue, StreamNumber};

use super::port::{Definitions, Port, Progress};
use super::setup::Setup;
use super::shared::Response;
use crate::census::CounterFields;
use crate::config::{self, wire::Scope};
use crate::gate::Gate;
use crate::headers::serialise;
use crate::host::Control as _;
use crate::stream::{Counted, Plugin, Stream};

/// A callback of a VM.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Callback {
    /// A counter enters the index.
    Enter(u32),
    Leave(u32),
    Begin {
        root: u32,
        stream: usize,
    },
    End {
        root: u32,
        stream: usize,
        counted: Counted,
    },
    Message {
        root: u32,
        queue: u32,
    },
    Tick {
        root: u32,
    },
    Request {
        root: u32,
        request: u32,
        headers: Vec<u8>,
    },
    Called {
        root: u32,
        number: u32,
    },
    /// A gate that was replaced is destroyed.
    Destroy {
        root: u32,
    },
}

/// The result of a callback.
#[derive(Debug, Clone, Copy)]
pub(super) enum Outcome {
    Nothing,
    Begun { counted: Counted, goes_on: bool },
}

/// A callback that is not over.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Running {
    pub(super) callback: Callback,
    pub(super) answer: Response,
    pub(super) progress: Progress,
}

/// A gate on one worker, and its timer.
#[derive(Debug, Clone)]
pub(super) struct GateRoot {
    pub(super) root: u32,
    pub(super) gate: Gate,
    period: u32,
    due: u64,
    /// Whether a newer configuration has taken its place.
    pub(super) is_replaced: bool,
}

impl Hash for GateRoot {
    /// Leaves out the fields that never change or have no effect on decisions.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let gate = &self.gate;
        (&gate.worker, &gate.latch, &gate.calls, &gate.events, gate.queue).hash(state);
        (self.root, self.period, self.due, self.is_replaced).hash(state);
    }
}

/// A counter.
#[derive(Debug, Clone, Hash)]
pub(super) struct Counter {
    pub(super) root: u32,
    pub(super) scope: Scope,
    pub(super) fields: CounterFields,
    /// Whether a newer configuration has taken its place.
    pub(super) is_replaced: bool,
}

#[derive(Debug, Clone, Hash)]
pub(super) struct Worker {
    pub(super) is_alive: bool,
    pub(super) gates: Vec<GateRoot>,
    pub(super) counters: Vec<Counter>,
    pub(super) running: Option<Running>,
}

type Plugins = BTreeMap<&'static str, Rc<Plugin>>;

thread_local! {
    /// Plugins, configured once for each thread; the fields of the counter are restored for each
    /// callback.
    static PLUGINS: RefCell<Plugins> = const { RefCell::new(BTreeMap::new()) };
}

fn plugin(scope: Scope) -> Rc<Plugin> {
    let make = || {
        let config = config::parse(Setup::counter_text(scope).as_bytes()).expect("a configuration");
        let plugin = Plugin::new(&Definitions, config).expect("all metrics count");
        plugin.metrics.begun.increment(&Definitions);
        plugin.metrics.excluded.increment(&Definitions);
        Rc::new(plugin)
    };
    PLUGINS.with_borrow_mut(|plugins| Rc::clone(plugins.entry(scope.into()).or_insert_with(make)))
}

pub(super) fn headers(lines: &[(&str, &str)]) -> Vec<u8> {
    serialise(lines)
}

impl Default for Worker {
    fn default() -> Self {
        Self { is_alive: true, gates: Vec::new(), counters: Vec::new(), running: None }
    }
}

impl Worker {
    pub(super) fn add_gate(&mut self, port: &Port<'_>, root: u32, text: &str, now: u64) {
        let policy = config::parse(text.as_bytes()).expect("a configuration").gate.expect("a gate");
        let gate = Gate::new(port, root, policy).expect("all metrics are defined");
        for old in self.gates.iter_mut().filter(|old| gate_of(old.root) == gate_of(root)) {
            old.is_replaced = true;
        }
        self.gates.push(GateRoot { root, gate, period: 0, due: 0, is_replaced: false });
        self.set_timer(port, root, now);
    }

    /// The gate that new requests go to.
    pub(super) fn gate_root(&self, gate: usize) -> Option<&GateRoot> {
        self.gates.iter().find(|root| gate_of(root.root) == gate && !root.is_replaced)
    }

    pub(super) fn add_counter(&mut self, root: u32, scope: Scope) {
        for old in self.counters.iter_mut().filter(|old| old.scope == scope) {
            old.is_replaced = true;
        }
        self.counters.push(Counter {
            root,
            scope,
            fields: CounterFields::default(),
            is_replaced: false,
        });
    }

    /// The counter that new streams of this scope go to.
    pub(super) fn counter(&self, scope: Scope) -> Option<&Counter> {
        self.counters.iter().find(|counter| counter.scope == scope && !counter.is_replaced)
    }

    /// The gates whose tick is due.
    pub(super) fn due(&self, now: u64) -> impl Iterator<Item = u32> {
        let is_due = move |root: &&GateRoot| root.period > 0 && root.due <= now;
        self.gates.iter().filter(is_due).map(|root| root.root)
    }

    /// Calls the VM.
    pub(super) fn call(&mut self, port: &Port<'_>, callback: &Callback, now: u64) -> Outcome {
        match *callback {
            Callback::Enter(root) => {
                self.count(root, |plugin| plugin.counter.enter_index(port, plugin.config.scope))
            }
            Callback::Leave(root) => {
                self.count(root, |plugin| plugin.counter.leave_index(port));
                self.counters.retain(|counter| counter.root != root);
            }
            Callback::Begin { root, .. } => return self.begin(port, root),
            Callback::End { root, counted, .. } => {
                self.count(root, |plugin| Stream::resumed(Rc::clone(plugin), counted).on_end(port))
            }
            Callback::Message { root, .. }
                if self.counters.iter().any(|counter| counter.root == root) =>
            {
                self.count(root, |plugin| plugin.counter.reply_to_all::<Stream>(port, &mut |_| {}));
            }
            Callback::Message { root, queue } => {
                self.gate(port, root, now, |gate| gate.on_queue_ready(port, Queue(queue)))
            }
            Callback::Tick { root } => {
                self.gate(port, root, now, |gate| gate.on_tick(port));
                for gate in self.gates.iter_mut().filter(|gate| gate.root == root) {
                    gate.due = gate.due.max(now + u64::from(gate.period));
                }
            }
            Callback::Request { root, request, ref headers } => {
                self.gate(port, root, now, |gate| {
                    gate.on_request_headers(port, StreamNumber(request), headers)
                })
            }
            Callback::Called { root, number } => self.gate(port, root, now, |gate| {
                let headers = usize::from(port.call_response_status().is_some());
                gate.on_http_call_response(port, number, headers, 0);
            }),
            Callback::Destroy { root } => {
                self.gate(port, root, now, |gate| gate.on_delete(port));
                self.gates.retain(|gate| gate.root != root);
            }
        }
        Outcome::Nothing
    }

    fn begin(&mut self, port: &Port<'_>, root: u32) -> Outcome {
        let mut outcome = Outcome::Nothing;
        self.count(root, |plugin| {
            let mut stream = Stream::new(Rc::clone(plugin));
            let goes_on = stream.on_request_headers(port);
            outcome = Outcome::Begun { counted: stream.counted(), goes_on };
        });
        outcome
    }

    /// Runs code of a counter.
    fn count(&mut self, root: u32, run: impl FnOnce(&Rc<Plugin>)) {
        let Some(counter) = self.counters.iter_mut().find(|counter| counter.root == root) else {
            return;
        };
        let plugin = plugin(counter.scope);
        plugin.counter.restore(&counter.fields);
        run(&plugin);
        counter.fields = plugin.counter.fields();
    }

    /// Runs code of a gate, and then ends the contexts of the requests that it has answered.
    fn gate(&mut self, port: &Port<'_>, root: u32, now: u64, run: impl FnOnce(&mut Gate)) {
        let Some(gate) = self.gates.iter_mut().find(|gate| gate.root == root) else { return };
        run(&mut gate.gate);
        for request in port.take_answered() {
            gate.gate.on_stream_end(port, StreamNumber(request));
        }
        self.set_timer(port, root, now);
    }

    /// Sets the timer of a gate, if this callback has set its period.
    fn set_timer(&mut self, port: &Port<'_>, root: u32, now: u64) {
        let gate = self.gates.iter_mut().find(|gate| gate.root == root);
        if let Some((gate, period)) = gate.zip(port.period()) {
            gate.period = period;
            gate.due = now + u64::from(period);
        }
    }
}

/// The number of roots of gates in one configuration, at most.
pub(super) const NEWER_GATE: u32 = 5;

/// The gate of this root.
pub(super) fn gate_of(root: u32) -> usize {
    (root % NEWER_GATE) as usize
}
