//! Envoy's admin interface: how its calls are served, how they fail, and its statistics.

use std::sync::Arc;

use laststream_drain::sim::expected;

use super::setup::{Fault, Setup};
use super::step::Action;
use super::worker::{Callback, gate_of};
use super::world::{Life, World};
use crate::config::wire::Scope;

/// The path that is asked of Istio's agent.
const AGENT: &str = "/drain";
/// Envoy's answer in the name of a port that nobody listens on.
const REFUSED: &str = "reset reason: remote connection failure";

impl World {
    /// Adds the ways in which each call may fail.
    pub(super) fn fault_actions(&self, setup: &Setup, actions: &mut Vec<Action>) {
        if self.failures == 0 || self.shared.refuses_next {
            return;
        }
        for fault in &setup.faults {
            if *fault == Fault::Refused {
                actions.push(Action::RefuseNext);
                continue;
            }
            let is_about_body = matches!(fault, Fault::Empty | Fault::Foreign);
            let calls = self.shared.calls.iter().filter(|call| {
                call.ended.is_none() && (!is_about_body || call.path.starts_with("/stats"))
            });
            actions.extend(calls.map(|call| Action::Fail(call.number, *fault)));
        }
    }

    pub(super) fn fail(&mut self, number: u32, fault: Fault) {
        self.failures -= 1;
        let mut calls = Arc::make_mut(&mut self.shared.calls).iter_mut();
        let Some(call) = calls.find(|call| call.number == number) else { return };
        let (status, body) = match fault {
            Fault::Refused | Fault::Unavailable => (Some(503), "no healthy upstream"),
            Fault::TimedOut => (Some(504), ""),
            Fault::Reset => (None, ""),
            Fault::Empty => (Some(200), ""),
            Fault::Foreign => (Some(200), "<html>downstream_rq_active: 0</html>"),
        };
        call.ended = Some((status, body.into()));
        let is_lost = fault == Fault::Unavailable && expected::signal(&call.path).is_some();
        if is_lost {
            self.signals.retain(|signal| signal.number != number);
        }
    }

    /// Serves a call to the admin interface, with the statistics of this moment.
    pub(super) fn serve(&mut self, setup: &Setup, number: u32) {
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
        Arc::make_mut(&mut self.shared.calls)[index].ended = Some(match &*call.path {
            _ if is_sample => (Some(200), self.stats(setup)),
            AGENT if self.shared.agent_refuses => (Some(503), REFUSED.into()),
            AGENT => (Some(405), String::new()),
            _ => (Some(200), String::new()),
        });
        let gate = gate_of(call.root);
        if !is_sample || self.uncounted(setup, setup.gates[gate]) {
            return;
        }
        self.notes[gate].is_confirmed |= gate == 0 && setup.finish != "nothing";
        for (state, plan) in self.requests.iter_mut().zip(&setup.requests) {
            let is_its = plan.worker == call.worker && state.root == call.root;
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
            let is_over = |life: &Life| matches!(life, Life::Closed { .. } | Life::Over);
            let total = lives().filter(|life| *life != Life::Future).count();
            let active = total - lives().filter(is_over).count();
            text += &format!(
                "http.{prefix}.downstream_rq_active: {active}\n\
                 http.{prefix}.downstream_rq_total: {total}\n\
                 http.{prefix}.downstream_cx_http3_active: 0\n\
                 http.{prefix}.downstream_cx_tx_bytes_buffered: 0\n"
            );
        }
        text
    }

    pub(super) fn answer(&mut self, setup: &Setup, number: u32) {
        let Some(index) = self.shared.calls.iter().position(|call| call.number == number) else {
            return;
        };
        let call = Arc::make_mut(&mut self.shared.calls).remove(index);
        self.run(setup, call.worker, Callback::Called { root: call.root, number }, call.ended);
    }
}
