//! The stop hooks of the proxy's container, as models of what runs there: the write-ups' netstat loops, and `pilot-agent wait`.

use std::net::TcpStream;
use std::time::Duration;

use super::agent::Agent;
use super::app::App;
use super::clock::Clock;
use super::http;
use super::times::Times;

/// `pilot-agent wait` gives up on a single question after this.
const ASK: Duration = Duration::from_millis(500);

pub(super) struct Hook<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) times: &'a Times,
    pub(super) clock: &'a Clock,
}

pub(super) enum Kind<'a> {
    /// `while [ $(netstat -plunt | grep tcp | grep -v envoy | wc -l) -ne 0 ]; do sleep 1; done`; with an agent, its port is among the sockets.
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

    /// Runs until it ends or is cut; what it said, if it ended.
    pub(super) fn run(&self, until: Duration) -> Option<String> {
        while self.clock.now() < until && !self.clock.is_over() {
            if let Some(said) = self.ask() {
                return Some(said);
            }
            self.clock.pause(self.period().min(until.saturating_sub(self.clock.now())));
        }
        None
    }

    fn period(&self) -> Duration {
        match self.kind {
            Kind::Netstat { .. } => self.times.poll,
            Kind::Wait { .. } => self.times.poll / 2, // its --periodMillis is 500
        }
    }

    fn ask(&self) -> Option<String> {
        match self.kind {
            Kind::Netstat { app, agent } => {
                let open = app.is_listening() || agent.is_some_and(Agent::is_listening);
                (!open).then(|| "ends: no listening socket is left but Envoy's".to_owned())
            }
            Kind::Wait { gate } => {
                let mut stream = TcpStream::connect(("127.0.0.1", gate)).ok()?;
                stream.set_read_timeout(Some(ASK)).ok()?;
                let reply = http::exchange(&mut stream, "GET", "/prestop", &[]).ok()?;
                (reply.status == 200).then(|| format!("ends: the gate says {}", word(&reply)))
            }
        }
    }
}

/// The state in the gate's answer.
fn word(reply: &http::Reply) -> String {
    let json: Option<serde_json::Value> = serde_json::from_slice(&reply.body).ok();
    json.and_then(|json| json["state"].as_str().map(str::to_owned)).unwrap_or_else(|| "200".to_owned())
}
