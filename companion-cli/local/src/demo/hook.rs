//! Models of stop hooks: a sleep, the loops with netstat that are usual in Istio, and the two
//! clients in Istio's agent.

use std::time::Duration;

use http::Method;

use super::agent::Agent;
use super::app::App;
use super::clock::Clock;
use super::record::Actor;
use super::times::Times;
use crate::http::Http;
use laststream_gate::{GateError, Outcome, Response};

/// The time limit of `pilot-agent wait` for a single request.
const ASK: Duration = Duration::from_millis(500);
/// The time limit of `pilot-agent request`.
const REQUEST: Duration = Duration::from_secs(60);

pub(super) struct Hook<'a> {
    pub(super) who: Actor,
    pub(super) name: &'static str,
    /// The time between two polls.
    period: Duration,
    /// The hook's last words if it ends after this time, or the thing that it waits for.
    poll: Box<dyn Fn(Duration) -> Result<String, String> + 'a>,
}

impl<'a> Hook<'a> {
    /// `sleep: {seconds: 5}`, in the app's container.
    pub(super) fn sleep(times: &Times) -> Self {
        let time = times.sleep;
        let slept = move |passed| if passed < time { Err("it sleeps") } else { Ok("it has slept") };
        let poll = move |passed| slept(passed).map(str::to_owned).map_err(str::to_owned);
        Self { who: Actor::AppHook, ..Self::of_proxy("sleep", time, poll) }
    }

    /// `while [ $(netstat -plunt | grep tcp | grep -v envoy | wc -l) -ne 0 ]; do sleep 1; done`;
    /// with an agent, the agent's port is among the sockets.
    pub(super) fn netstat(app: &'a App, agent: Option<&'a Agent>, times: &Times) -> Self {
        let name = match agent {
            Some(_) => "netstat … | grep -v envoy",
            None => "netstat … | egrep -v 'envoy|pilot-agent'",
        };
        Self::of_proxy(name, times.poll, move |_| {
            let agent_listens = agent.is_some_and(Agent::is_listening);
            let listening = [("the app", app.is_listening()), ("pilot-agent", agent_listens)];
            let names: Vec<&str> =
                listening.into_iter().filter_map(|(name, is)| is.then_some(name)).collect();
            if names.is_empty() {
                Ok("no listening socket is left but Envoy's".to_owned())
            } else {
                Err(format!("{} still listens", names.join(" and ")))
            }
        })
    }

    /// `pilot-agent wait --url http://127.0.0.1:16091/prestop`, with `--periodMillis 500`.
    pub(super) fn wait(gate: u16, times: &Times) -> Self {
        Self::of_proxy("pilot-agent wait --url …/prestop", times.poll / 2, move |_| {
            match ask(Method::GET, gate, "/prestop", ASK) {
                Ok(reply) if reply.status == 200 => Ok(format!("the gate says {}", state(&reply))),
                Ok(reply) => Err(format!("the gate says {}", state(&reply))),
                Err(error) => Err(format!("the gate does not answer: {error}")),
            }
        })
    }

    /// `pilot-agent request --debug-port=15020 POST drain`: Istio's own hook of native sidecars. It
    /// asks once: whatever the answer, the hook has ended.
    pub(super) fn request_drain(agent: u16, times: &Times) -> Self {
        Self::of_proxy("pilot-agent request POST drain", times.poll, move |_| {
            Ok(match ask(Method::POST, agent, "/drain", REQUEST) {
                Ok(reply) => format!("the agent answers {}, and Envoy drains", reply.status),
                Err(error) => format!("the agent does not answer: {error}"),
            })
        })
    }

    fn of_proxy(
        name: &'static str,
        period: Duration,
        poll: impl Fn(Duration) -> Result<String, String> + 'a,
    ) -> Self {
        Self { who: Actor::Hook, name, period, poll: Box::new(poll) }
    }

    /// Runs the hook until it ends, with its last words, or is cut: then the error is the thing
    /// that it still waited for.
    pub(super) fn run(&self, clock: &Clock, until: Duration) -> Result<String, String> {
        let began = clock.now();
        loop {
            let polled = (self.poll)(clock.now().saturating_sub(began));
            if polled.is_ok() || clock.now() >= until || clock.is_over() {
                return polled;
            }
            clock.pause(self.period.min(until.saturating_sub(clock.now())));
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
