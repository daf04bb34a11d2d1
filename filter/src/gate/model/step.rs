//! The actions that are possible in a state, and their effects.

use super::setup::{Kind, Setup};
use super::worker::{Callback, headers};
use super::world::{Life, World};
use crate::config::wire::Scope;
use crate::stream::Counted;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Action {
    /// Envoy has a new stream.
    Arrive(usize),
    /// The stream reaches the filter.
    Begin(usize),
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
    /// The call's answer reaches the gate.
    Answer(u32),
    /// Time passes.
    Nap(usize),
    StepWallClock,
    Die(usize),
    Reload(usize),
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
        let calls = self.shared.calls.iter().filter(|call| call.arrived.is_none());
        actions.extend(calls.map(|call| Action::Serve(call.number)));
        let may_wait = |action: &Action| setup.stalls && self.is_of_second_worker(action);
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

    /// Adds the possible next callbacks of one worker's VM.
    fn actions_of(&self, setup: &Setup, number: usize, actions: &mut Vec<Action>) {
        let worker = &self.workers[number];
        if !worker.is_alive {
            return;
        }
        if worker.running.is_some() {
            return actions.push(Action::GoOn(number));
        }
        let is_here = |root: u32| {
            (root as usize) < worker.gates.len()
                || worker.counters.iter().any(|counter| counter.root == root)
        };
        let heard = self.shared.queues.iter().enumerate();
        let heard = heard.filter(|(_, queue)| {
            queue.worker == number && !queue.messages.is_empty() && is_here(queue.root)
        });
        actions.extend(heard.map(|(queue, _)| Action::Deliver(queue)));
        let due = (0..worker.gates.len()).filter(|gate| worker.is_due(*gate, self.shared.clock));
        actions.extend(due.map(|gate| Action::Tick(number, gate as u32)));
        let answered =
            self.shared.calls.iter().filter(|call| call.worker == number && call.arrived.is_some());
        actions.extend(answered.map(|call| Action::Answer(call.number)));
        if self.reloads[number] > 0 {
            actions.push(Action::Reload(number));
        }
        let has_streams = |root: u32| {
            let is_its =
                |life: Life| matches!(life, Life::Accepted { root: other, .. } if other == root);
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
            let is_free = !worker.is_alive || worker.running.is_none();
            let is_filtered = plan.kind != Kind::Uncounted
                && worker.is_alive
                && worker.counter(plan.scope).is_some();
            match stream.life {
                Life::Future => actions.push(Action::Arrive(index)),
                Life::Arrived if is_filtered && is_free => actions.push(Action::Begin(index)),
                Life::Arrived if !is_filtered => actions.push(Action::End(index)),
                Life::Accepted { .. } if is_free && !setup.is_lasting => {
                    actions.push(Action::End(index))
                }
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
        if worker.is_alive && worker.running.is_none() {
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
            Action::End(stream) => self.end(setup, stream),
            Action::Send(request) => self.send(setup, request),
            Action::GoOn(worker) => {
                if let Some(running) = self.workers[worker].running.take() {
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
            Action::Answer(call) => self.answer(setup, call),
            Action::Nap(nap) => {
                self.naps[nap] -= 1;
                self.shared.clock += setup.naps[nap].0;
            }
            Action::StepWallClock => {
                self.wall_steps -= 1;
                self.shared.wall_step += WALL_STEP;
            }
            Action::Die(worker) => self.die(setup, worker),
            Action::Reload(worker) => self.reload(setup, worker),
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
            Life::Accepted { root, counted } if !state.is_orphan => {
                self.streams[stream].life = Life::Ending;
                self.run(setup, plan.worker, Callback::End { root, stream, counted }, None);
            }
            Life::Accepted { counted, .. } => {
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
        self.notes[plan.gate].was_asked |= plan.may_open();
        let headers =
            headers(&[(":method", plan.method), (":path", plan.path), (":authority", "localhost")]);
        self.run(
            setup,
            plan.worker,
            Callback::Request { root: plan.gate as u32, request: request as u32, headers },
            None,
        );
    }

    /// Serves a call to the admin interface, with the statistics of this moment.
    fn serve(&mut self, setup: &Setup, number: u32) {
        let Some(index) = self.shared.calls.iter().position(|call| call.number == number) else {
            return;
        };
        let call = self.shared.calls[index].clone();
        match call.path.as_str() {
            "/healthcheck/fail" => self.shared.is_unhealthy = true,
            "/healthcheck/ok" => self.shared.is_unhealthy = false,
            _ => {}
        }
        let is_sample = call.path.starts_with("/stats");
        let body = if is_sample { self.stats(setup) } else { String::new() };
        self.shared.calls[index].arrived = Some(body);
        if !is_sample || self.uncounted(setup, setup.gates[call.root as usize]) {
            return;
        }
        for (state, plan) in self.requests.iter_mut().zip(&setup.requests) {
            let is_its = plan.worker == call.worker && plan.gate == call.root as usize;
            if is_its && state.status.is_none() && state.sent.is_some_and(|sent| sent < number) {
                state.is_confirmed = true;
            }
        }
    }

    /// The statistics of Envoy's admin interface.
    fn stats(&self, setup: &Setup) -> String {
        let mut text = String::from("server.concurrency: 1\n");
        for scope in setup.scopes().into_iter().filter(|_| setup.exports) {
            let prefix = match scope {
                Scope::Gateway => "ingress",
                Scope::Inbound => "inbound_0.0.0.0_80",
                Scope::Outbound => "outbound_0.0.0.0_80",
            };
            let lives = || {
                self.streams
                    .iter()
                    .zip(&setup.streams)
                    .filter(|(_, plan)| plan.scope == scope)
                    .map(|(stream, _)| stream.life)
            };
            let total = lives().filter(|life| *life != Life::Future).count();
            let active = total - lives().filter(|life| *life == Life::Over).count();
            text += &format!(
                "http.{prefix}.downstream_rq_active: {active}\n\
                 http.{prefix}.downstream_rq_total: {total}\n\
                 http.{prefix}.downstream_cx_http3_active: 0\n\
                 http.{prefix}.downstream_cx_tx_bytes_buffered: 0\n"
            );
        }
        text
    }

    fn answer(&mut self, setup: &Setup, number: u32) {
        let Some(index) = self.shared.calls.iter().position(|call| call.number == number) else {
            return;
        };
        let call = self.shared.calls.remove(index);
        self.run(
            setup,
            call.worker,
            Callback::Called { root: call.root, number },
            Some((Some(200), call.arrived.unwrap_or_default())),
        );
    }
}
