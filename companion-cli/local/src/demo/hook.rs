//! Models of stop hooks: a sleep, the loops with netstat that are usual in Istio, and the two
//! clients in Istio's agent.

use std::time::Duration;

use http::Method;

use super::agent::Agent;
use super::app::App;
use super::clock::Clock;
use super::record::Actor;
use super::times::Times;
use laststream_gate::{GateError, Http, Outcome, Response};

/// The time limit of `pilot-agent wait` for a single request.
const ASK: Duration = Duration::from_millis(500);
/// The time limit of `pilot-agent request`.
const REQUEST: Duration = Duration::from_secs(60);

pub(super) struct Hook<'a> {
    pub(super) who: Actor,
    pub(super) kind: Kind<'a>,
    pub(super) times: &'a Times,
    pub(super) clock: &'a Clock,
}

pub(super) enum Kind<'a> {
    /// `sleep: {seconds: 5}`.
    Sleep,
    /// `while [ $(netstat -plunt | grep tcp | grep -v envoy | wc -l) -ne 0 ]; do sleep 1; done`;
    /// with an agent, the agent's port is among the sockets.
    Netstat { app: &'a App, agent: Option<&'a Agent> },
    /// `pilot-agent wait --url http://127.0.0.1:16091/prestop`.
    Wait { gate: u16 },
    /// `pilot-agent request --debug-port=15020 POST drain`: Istio's own hook of native sidecars.
    RequestDrain { agent: u16 },
}

impl Hook<'_> {
    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            Kind::Sleep => "sleep",
            Kind::Netstat { agent: Some(_), .. } => "netstat … | grep -v envoy",
            Kind::Netstat { agent: None, .. } => "netstat … | egrep -v 'envoy|pilot-agent'",
            Kind::Wait { .. } => "pilot-agent wait --url …/prestop",
            Kind::RequestDrain { .. } => "pilot-agent request POST drain",
        }
    }

    /// Runs the hook until it ends, with its last words, or is cut: then the error is the thing
    /// that it still waited for.
    pub(super) fn run(&self, until: Duration) -> Result<String, String> {
        let began = self.clock.now();
        loop {
            let waits_for = match self.poll(began) {
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
            Kind::Sleep => self.times.sleep,
            Kind::Wait { .. } => self.times.poll / 2, // its --periodMillis is 500
            Kind::Netstat { .. } | Kind::RequestDrain { .. } => self.times.poll,
        }
    }

    /// One poll: the hook's last words if it ends, or the thing that it waits for.
    fn poll(&self, began: Duration) -> Result<String, String> {
        match self.kind {
            Kind::Sleep if self.clock.now() < began + self.times.sleep => {
                Err("it sleeps".to_owned())
            }
            Kind::Sleep => Ok("it has slept".to_owned()),
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
            Kind::Wait { gate } => match ask(Method::GET, gate, "/prestop", ASK) {
                Ok(reply) if reply.status == 200 => Ok(format!("the gate says {}", state(&reply))),
                Ok(reply) => Err(format!("the gate says {}", state(&reply))),
                Err(error) => Err(format!("the gate does not answer: {error}")),
            },
            // It asks once: whatever the answer, the hook has ended.
            Kind::RequestDrain { agent } => Ok(match ask(Method::POST, agent, "/drain", REQUEST) {
                Ok(reply) => format!("the agent answers {}, and Envoy drains", reply.status),
                Err(error) => format!("the agent does not answer: {error}"),
            }),
        }
    }
}

fn ask(method: Method, port: u16, path: &str, limit: Duration) -> Result<Response, GateError> {
    Http::default().request(method, &format!("http://127.0.0.1:{port}{path}"), &[], limit)
}

/// The state in the gate's answer.
fn state(response: &Response) -> String {
    serde_json::from_str(&response.body)
        .map_or_else(|_| response.status.to_string(), |outcome: Outcome| outcome.state)
}
