//! Models of the stop hooks of the proxy's container: the loops with netstat that are usual in
//! Istio, and `pilot-agent wait`.

use std::time::Duration;

use http::Method;

use super::agent::Agent;
use super::app::App;
use super::clock::Clock;
use super::times::Times;
use laststream_gate::{GateError, Http, Outcome, Response};

/// The time limit of `pilot-agent wait` for a single request.
const ASK: Duration = Duration::from_millis(500);

pub(super) struct Hook<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) times: &'a Times,
    pub(super) clock: &'a Clock,
}

pub(super) enum Kind<'a> {
    /// `while [ $(netstat -plunt | grep tcp | grep -v envoy | wc -l) -ne 0 ]; do sleep 1; done`;
    /// with an agent, the agent's port is among the sockets.
    Netstat { app: &'a App, agent: Option<&'a Agent> },
    /// `pilot-agent wait --url http://127.0.0.1:15091/prestop`.
    Wait { gate: u16 },
}

impl Hook<'_> {
    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            Kind::Netstat { agent: Some(_), .. } => "netstat … | grep -v envoy",
            Kind::Netstat { agent: None, .. } => "netstat … | egrep -v 'envoy|pilot-agent'",
            Kind::Wait { .. } => "pilot-agent wait --url …/prestop",
        }
    }

    /// Runs the hook until it ends, with its last words, or is cut: then the error is the thing
    /// that it still waited for.
    pub(super) fn run(&self, until: Duration) -> Result<String, String> {
        loop {
            let waits_for = match self.poll() {
                Ok(outcome) => return Ok(outcome),
                Err(waits_for) => waits_for,
            };
            if self.clock.now() >= until || self.clock.is_over() {
                return Err(waits_for);
            }
            self.clock.pause(self.period().min(until.saturating_sub(self.clock.now())));
        }
    }

    fn period(&self) -> Duration {
        match self.kind {
            Kind::Netstat { .. } => self.times.poll,
            Kind::Wait { .. } => self.times.poll / 2, // its --periodMillis is 500
        }
    }

    /// One poll: the hook's last words if it ends, or the thing that it waits for.
    fn poll(&self) -> Result<String, String> {
        match self.kind {
            Kind::Netstat { app, agent } => {
                let listening = [
                    ("the app", app.is_listening()),
                    ("pilot-agent", agent.is_some_and(Agent::is_listening)),
                ];
                let names: Vec<&str> =
                    listening.into_iter().filter_map(|(name, is)| is.then_some(name)).collect();
                if names.is_empty() {
                    Ok("no listening socket is left but Envoy's".to_owned())
                } else {
                    Err(format!("{} still listens", names.join(" and ")))
                }
            }
            Kind::Wait { gate } => match answer(gate) {
                Ok(reply) if reply.status == 200 => Ok(format!("the gate says {}", state(&reply))),
                Ok(reply) => Err(format!("the gate says {}", state(&reply))),
                Err(error) => Err(format!("the gate does not answer: {error}")),
            },
        }
    }
}

fn answer(gate: u16) -> Result<Response, GateError> {
    Http::default().request(Method::GET, &format!("http://127.0.0.1:{gate}/prestop"), &[], ASK)
}

/// The state in the gate's answer.
fn state(response: &Response) -> String {
    serde_json::from_str(&response.body)
        .map_or_else(|_| response.status.to_string(), |outcome: Outcome| outcome.state)
}
