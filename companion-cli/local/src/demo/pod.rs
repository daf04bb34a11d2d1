//! A gateway's pod: an Envoy with its agent; and the app behind it.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::agent::Agent;
use super::app::App;
use super::bootstrap;
use super::clock::Clock;
use super::hook::Hook;
use super::lane::{EndedBy, Lane};
use super::proxy::{Proxy, Starter};
use super::times::Times;
use crate::http::Http;
use crate::waiting::START;
use laststream_base::causes::Context as _;
use laststream_http::Route;

pub(super) struct Pod {
    pub(super) app: App,
    pub(super) agent: Agent,
    proxy: Arc<Proxy>,
    lane: Lane,
    /// The port of its listener, which is known once its Envoy serves.
    pub(super) inbound: u16,
}

impl Pod {
    /// Starts the app, the agent and Envoy; [`Pod::ready`] waits until Envoy serves.
    pub(super) fn start(
        lane: Lane,
        index: usize,
        starter: &Starter,
        times: &Times,
    ) -> Result<Self, String> {
        let app = App::start()?;
        let agent = Agent::start(lane, times)?;
        let name = format!("{}-{index}", lane.key());
        let bootstrap = if lane == Lane::Laststream {
            let mut bootstrap = bootstrap::rendered(
                &policy(times, app.port()),
                starter.module(),
                &starter.admin(&name),
            )?;
            bootstrap::start_with_agent(&mut bootstrap, agent.port())?;
            bootstrap
        } else {
            let listener = bootstrap::listener("main", "app", json!({}), &[]);
            bootstrap::plain(
                &starter.admin(&name),
                vec![listener],
                vec![bootstrap::cluster("app", &[app.port()])],
            )
        };
        let proxy = Arc::new(starter.start(&name, &bootstrap)?);
        agent.attach_proxy(Arc::clone(&proxy));
        Ok(Self { app, agent, proxy, lane, inbound: 0 })
    }

    pub(super) fn ready(mut self, stop: &Clock) -> Result<Self, String> {
        self.proxy.ready(stop)?;
        self.inbound = self.proxy.port("main")?;
        // A gate starts only at the stop of an agent that it has seen.
        let limit = stop.now() + START;
        let is_seen = || self.lane != Lane::Laststream || self.agent.was_asked();
        stop.until(|| is_seen() || stop.now() >= limit);
        if is_seen() { Ok(self) } else { Err("the gate does not ask for the agent".to_owned()) }
    }

    /// The reason for the end of the pod's Envoy.
    pub(super) fn ended_by(&self) -> EndedBy {
        if !self.proxy.has_ended() {
            return EndedBy::StillRunning;
        }
        self.agent.ended_by().unwrap_or(EndedBy::Itself)
    }

    /// The stop hook of its container.
    pub(super) fn hook(&self, times: &Times) -> Option<Hook<'_>> {
        match self.lane {
            Lane::Sleep => Some(Hook::sleep(times)),
            Lane::Netstat => Some(Hook::netstat(&self.agent, times)),
            _ => None,
        }
    }
}

/// A client that keeps its connection, which was used once and is idle now.
pub(super) fn idle_connection(port: u16) -> Result<Http, String> {
    let caller = Http::new(Route::Direct, true);
    let used = caller.request(
        Method::GET,
        &format!("http://127.0.0.1:{port}/headers"),
        &[],
        Duration::from_secs(10),
    );
    used.context("a first request to a gateway failed")?;
    Ok(caller)
}

/// The policy from which the bootstrap of the lane `laststream` is rendered.
fn policy(times: &Times, app: u16) -> Value {
    let millis = |duration: Duration| format!("{}ms", duration.as_millis());
    json!({
        "placement": { "envoy": { "app": format!("127.0.0.1:{app}") } },
        "drain": { "quiet": millis(times.quiet), "deadline": millis(times.deadline) },
    })
}
