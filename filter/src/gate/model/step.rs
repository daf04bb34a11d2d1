//! The actions that are possible in a state, and their effects.

use super::setup::{Fault, Kind, Setup};
use super::worker::{Callback, headers};
use super::world::{Life, World};
use crate::stream::Counted;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Action {
    /// Envoy has a new stream.
    Arrive(usize),
    /// The stream reaches the filter.
    Begin(usize),
    /// Envoy counts the stream no more, and the worker stands still before it calls the filter.
    Close(usize),
    End(usize),
    /// A client sends a request to a gate.
    Send(usize),
    /// A worker goes on with its callback.
    GoOn(usize),
    /// A worker is called for the messages on a queue.
    Deliver(usize),
    Tick(usize, u32),
    /// Envoy's main thread serves a call.
    Serve(u32),
    /// The call fails.
    Fail(u32, Fault),
    /// Envoy refuses the next call at once.
    RefuseNext,
    /// The call's answer reaches the gate.
    Answer(u32),
    /// Time passes.
    Nap(usize),
    StepWallClock,
    /// The port of Istio's agent opens or closes.
    TurnAgent,
    Die(usize),
    Reload(usize),
    /// The gate of a worker is replaced by one with the same configuration.
    ReloadGate(usize),
    /// A gate that was replaced is destroyed.
    DestroyGate(usize, u32),
    /// An old configuration whose streams are over is destroyed.
    Leave(usize, u32),
}

/// The size of a step of the wall clock; milliseconds.
const WALL_STEP: u64 = 120_000;

impl World {
    pub(super) fn actions(&self, setup: &Setup, actions: &mut Vec<Action>) {
        if self.violation.is_some() {
            return;
        }
        for worker in 0..self.workers.len() {
            self.actions_of(setup, worker, actions);
        }
        let calls = self.shared.calls.iter().filter(|call| call.ended.is_none());
        actions.extend(calls.map(|call| Action::Serve(call.number)));
        let may_wait = |action: &Action| match action {
            Action::Serve(_) | Action::Answer(_) => setup.is_slow,
            _ => setup.stalls && self.is_of_second_worker(action),
        };
        if !setup.is_unordered {
            let is_ordered =
                |action: &Action| matches!(action, Action::Deliver(_)) && !may_wait(action);
            let first = actions.iter().position(is_ordered);
            let mut index = 0..;
            actions.retain(|action| index.next() == first || !is_ordered(action));
        }
        let is_busy = actions.iter().any(|action| {
            let is_work = matches!(
                action,
                Action::GoOn(_)
                    | Action::Deliver(_)
                    | Action::Tick(..)
                    | Action::Serve(_)
                    | Action::Answer(_)
            );
            is_work && !may_wait(action)
        });
        self.fault_actions(setup, actions);
        self.stream_actions(setup, actions);
        self.request_actions(setup, actions);
        let is_busy = is_busy
            || setup.streams.is_empty()
                && self.requests.iter().any(|request| request.sent.is_none());
        if !(is_busy && setup.is_prompt) {
            let left = self.naps.iter().enumerate().filter(|(_, left)| **left > 0);
            actions.extend(left.map(|(nap, _)| Action::Nap(nap)));
        }
        if self.wall_steps > 0 {
            actions.push(Action::StepWallClock);
        }
        if self.agent_turns > 0 {
            actions.push(Action::TurnAgent);
        }
        let alive = self.workers.iter().enumerate().filter(|(_, worker)| worker.is_alive);
        actions.extend(alive.filter(|_| self.deaths > 0).map(|(worker, _)| Action::Die(worker)));
    }

    fn is_of_second_worker(&self, action: &Action) -> bool {
        match action {
            Action::GoOn(worker) | Action::Tick(worker, _) => *worker == 1,
            Action::Deliver(queue) => self.shared.queues[*queue].worker == 1,
            _ => false,
        }
    }

    /// Whether the worker will next call the filter for the end of a stream that Envoy has closed.
    fn stands_still(&self, setup: &Setup, worker: usize) -> bool {
        self.streams.iter().zip(&setup.streams).any(|(stream, plan)| {
            plan.worker == worker && !stream.is_orphan && matches!(stream.life, Life::Closed { .. })
        })
    }

    /// Adds the possible next callbacks of one worker's VM.
    fn actions_of(&self, setup: &Setup, number: usize, actions: &mut Vec<Action>) {
        let worker = &self.workers[number];
        if !worker.is_alive {
            return;
        }
        if worker.running.is_some() {
            return actions.push(Action::GoOn(number));
        }
        if self.stands_still(setup, number) {
            return;
        }
        let is_here = |root: u32| {
            worker.gates.iter().any(|gate| gate.root == root)
                || worker.counters.iter().any(|counter| counter.root == root)
        };
        let heard = self.shared.queues.iter().enumerate();
        let heard = heard.filter(|(_, queue)| {
            queue.worker == number && !queue.messages.is_empty() && is_here(queue.root)
        });
        actions.extend(heard.map(|(queue, _)| Action::Deliver(queue)));
        let due = worker.due(self.shared.clock);
        actions.extend(due.map(|root| Action::Tick(number, root)));
        let answered =
            self.shared.calls.iter().filter(|call| call.worker == number && call.ended.is_some());
        actions.extend(answered.map(|call| Action::Answer(call.number)));
        if self.reloads[number] > 0 {
            actions.push(Action::Reload(number));
        }
        if self.gate_reloads > 0 && number == 0 {
            actions.push(Action::ReloadGate(number));
        }
        let old = self.destroyable_gates(number);
        actions.extend(old.map(|root| Action::DestroyGate(number, root)));
        let has_streams = |root: u32| {
            let is_its = |life: Life| match life {
                Life::Accepted { root: other, .. } | Life::Closed { root: other, .. } => {
                    other == root
                }
                _ => false,
            };
            self.streams
                .iter()
                .zip(&setup.streams)
                .any(|(stream, plan)| plan.worker == number && is_its(stream.life))
        };
        let old = worker
            .counters
            .iter()
            .filter(|counter| counter.is_replaced && !has_streams(counter.root));
        actions.extend(old.map(|counter| Action::Leave(number, counter.root)));
    }

    fn stream_actions(&self, setup: &Setup, actions: &mut Vec<Action>) {
        for (index, (stream, plan)) in self.streams.iter().zip(&setup.streams).enumerate() {
            let worker = &self.workers[plan.worker];
            let is_free = !worker.is_alive
                || worker.running.is_none() && !self.stands_still(setup, plan.worker);
            let is_filtered = plan.kind != Kind::Uncounted
                && worker.is_alive
                && worker.counter(plan.scope).is_some();
            match stream.life {
                Life::Future => actions.push(Action::Arrive(index)),
                Life::Arrived if is_filtered && is_free => actions.push(Action::Begin(index)),
                Life::Arrived if !is_filtered => actions.push(Action::End(index)),
                Life::Accepted { .. } if is_free && setup.closes_first && !stream.is_orphan => {
                    actions.push(Action::Close(index))
                }
                Life::Accepted { .. } if is_free && !setup.is_lasting => {
                    actions.push(Action::End(index))
                }
                Life::Closed { .. } => actions.push(Action::End(index)),
                Life::Beginning | Life::Ending if stream.is_orphan => {
                    actions.push(Action::End(index))
                }
                _ => {}
            }
        }
    }

    /// Adds the next request to a gate. Requests are sent in their order.
    fn request_actions(&self, setup: &Setup, actions: &mut Vec<Action>) {
        let Some(next) = self.requests.iter().position(|request| request.sent.is_none()) else {
            return;
        };
        let worker = &self.workers[setup.requests[next].worker];
        let stands_still = self.stands_still(setup, setup.requests[next].worker);
        if worker.is_alive && worker.running.is_none() && !stands_still {
            actions.push(Action::Send(next));
        }
    }

    pub(super) fn after(&self, setup: &Setup, action: &Action) -> Self {
        let mut world = self.clone();
        world.apply(setup, action);
        world
    }

    fn apply(&mut self, setup: &Setup, action: &Action) {
        match *action {
            Action::Arrive(stream) => self.streams[stream].life = Life::Arrived,
            Action::Begin(stream) => self.begin(setup, stream),
            Action::Close(stream) => {
                if let Life::Accepted { root, counted } = self.streams[stream].life {
                    let at = self.shared.clock;
                    self.streams[stream].life = Life::Closed { root, counted, at };
                }
            }
            Action::End(stream) => self.end(setup, stream),
            Action::Send(request) => self.send(setup, request),
            Action::GoOn(worker) => {
                if let Some(running) = self.worker(worker).running.take() {
                    self.resume(setup, worker, running);
                }
            }
            Action::Deliver(queue) => {
                let (worker, root) =
                    (self.shared.queues[queue].worker, self.shared.queues[queue].root);
                self.run(setup, worker, Callback::Message { root, queue: queue as u32 + 1 }, None);
            }
            Action::Tick(worker, root) => self.run(setup, worker, Callback::Tick { root }, None),
            Action::Serve(call) => self.serve(setup, call),
            Action::Fail(call, fault) => self.fail(call, fault),
            Action::RefuseNext => {
                self.failures -= 1;
                self.shared.refuses_next = true;
            }
            Action::Answer(call) => self.answer(setup, call),
            Action::Nap(nap) => {
                self.naps[nap] -= 1;
                self.shared.clock += setup.naps[nap].0;
            }
            Action::StepWallClock => {
                self.wall_steps -= 1;
                self.shared.wall_step += WALL_STEP;
            }
            Action::TurnAgent => self.turn_agent(),
            Action::Die(worker) => self.die(setup, worker),
            Action::Reload(worker) => self.reload(setup, worker),
            Action::ReloadGate(worker) => self.reload_gate(setup, worker),
            Action::DestroyGate(worker, root) => self.destroy_gate(setup, worker, root),
            Action::Leave(worker, root) => self.run(setup, worker, Callback::Leave(root), None),
        }
        self.check_health(setup);
    }

    pub(super) fn begin(&mut self, setup: &Setup, stream: usize) {
        let plan = setup.streams[stream];
        let Some(root) = self.workers[plan.worker].counter(plan.scope).map(|counter| counter.root)
        else {
            return;
        };
        self.streams[stream].life = Life::Beginning;
        self.run(setup, plan.worker, Callback::Begin { root, stream }, None);
    }

    /// Ends a stream. If its VM has died, only Envoy sees the end.
    fn end(&mut self, setup: &Setup, stream: usize) {
        let (state, plan) = (self.streams[stream], setup.streams[stream]);
        match state.life {
            Life::Accepted { root, counted } | Life::Closed { root, counted, .. }
                if !state.is_orphan =>
            {
                self.streams[stream].life = Life::Ending;
                self.run(setup, plan.worker, Callback::End { root, stream, counted }, None);
            }
            Life::Accepted { counted, .. } | Life::Closed { counted, .. } => {
                self.streams[stream].life = Life::Over;
                if counted != Counted::No && setup.holds(plan.kind) {
                    self.shared.holding[plan.scope as usize] -= 1;
                }
            }
            _ => self.streams[stream].life = Life::Over,
        }
    }

    fn send(&mut self, setup: &Setup, request: usize) {
        let plan = setup.requests[request];
        self.requests[request].sent = Some(self.shared.calls_made);
        let root = self.workers[plan.worker].gate_root(plan.gate).map_or(0, |gate| gate.root);
        self.requests[request].root = root;
        self.notes[plan.gate].was_asked |= plan.may_open();
        self.notes[plan.gate].is_cancelled &= !plan.may_open();
        let headers =
            headers(&[(":method", plan.method), (":path", plan.path), (":authority", "localhost")]);
        self.run(
            setup,
            plan.worker,
            Callback::Request { root, request: request as u32, headers },
            None,
        );
    }
}
