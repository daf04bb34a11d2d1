//! Configurations that are replaced, and VMs that die.

use std::sync::Arc;

use super::port::{Caller, Port, Progress};
use super::setup::Setup;
use super::worker::{Callback, NEWER_GATE, Worker};
use super::world::{COUNTERS, Life, World};

/// The offset of counting roots of a newer configuration.
const NEWER_COUNTER: u32 = 10;

impl World {
    /// Loads a newer configuration. The older counters stay until their streams are over.
    pub(super) fn reload(&mut self, setup: &Setup, worker: usize) {
        self.reloads[worker] -= 1;
        for scope in setup.scopes() {
            let root = COUNTERS + NEWER_COUNTER + scope as u32;
            self.worker(worker).add_counter(root, scope);
            if setup.loads_nothing {
                self.worker(worker).counters.pop();
            } else {
                self.run(setup, worker, Callback::Enter(root), None);
            }
        }
    }

    /// Lets the VM trap. Its streams go on without the filter, and no other VM answers for its
    /// gates.
    pub(super) fn die(&mut self, setup: &Setup, worker: usize) {
        self.deaths -= 1;
        let of_this = |stream: usize| setup.streams[stream].worker == worker;
        for (_, stream) in
            self.streams.iter_mut().enumerate().filter(|(stream, _)| of_this(*stream))
        {
            stream.is_orphan = matches!(
                stream.life,
                Life::Beginning | Life::Accepted { .. } | Life::Closed { .. } | Life::Ending
            );
        }
        Arc::make_mut(&mut self.shared.calls).retain(|call| call.worker != worker);
        self.workers[worker] = Worker { is_alive: false, ..Worker::default() }.into();
        if setup.is_reborn {
            self.start(setup, worker);
        }
    }

    /// Loads the configuration of the first gate anew. Envoy keeps the older root as long as it
    /// holds requests.
    pub(super) fn reload_gate(&mut self, setup: &Setup, worker: usize) {
        self.gate_reloads -= 1;
        let root = self.workers[worker].gate_root(0).map_or(0, |gate| gate.root + NEWER_GATE);
        let (now, caller) = (self.shared.clock, Caller { worker, root, ..Caller::default() });
        let port = Port::new(&mut self.shared, caller, Progress::default());
        Arc::make_mut(&mut self.workers[worker]).add_gate(&port, root, &setup.gate_text(0), now);
    }

    /// Destroys a gate that was replaced. Envoy drops the answers to its calls.
    pub(super) fn destroy_gate(&mut self, setup: &Setup, worker: usize, root: u32) {
        self.run(setup, worker, Callback::Destroy { root }, None);
        let is_its = |call: u32| {
            let mut calls = self.shared.calls.iter();
            calls.any(|other| other.number == call && (other.worker, other.root) == (worker, root))
        };
        self.signals.retain(|signal| signal.ends_envoy || !is_its(signal.number));
        Arc::make_mut(&mut self.shared.calls)
            .retain(|call| (call.worker, call.root) != (worker, root));
    }

    /// The roots of this worker's gates that were replaced and hold no request.
    pub(super) fn destroyable_gates(&self, worker: usize) -> impl Iterator<Item = u32> {
        let holds = |root: u32| {
            let is_held = |state: &super::world::RequestState| {
                state.sent.is_some() && state.status.is_none() && state.root == root
            };
            self.requests.iter().any(is_held)
        };
        let gates = self.workers[worker].gates.iter();
        gates.filter(move |gate| gate.is_replaced && !holds(gate.root)).map(|gate| gate.root)
    }
}
