//! A pod: the app, and an Envoy with its agent beside it.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::agent::Agent;
use super::app::App;
use super::bootstrap;
use super::clock::Clock;
use super::hook::Hook;
use super::kubelet::Stopping;
use super::lane::{EndedBy, Lane};
use super::proxy::{Proxy, Starter};
use super::record::Actor;
use super::times::Times;
use crate::http::Http;
use laststream_base::causes::Context as _;
use laststream_http::Route;

pub(super) struct Pod {
    pub(super) app: App,
    pub(super) agent: Agent,
    proxy: Arc<Proxy>,
    lane: Lane,
    /// The ports of its listeners, which are known once its Envoy serves.
    pub(super) inbound: u16,
    gate: u16,
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
        let agent = Agent::start(lane.exits_on_zero(), times)?;
        let name = format!("{}-{index}", lane.key());
        let bootstrap = if lane == Lane::Laststream {
            let mut bootstrap = bootstrap::rendered(
                &policy(times, app.port()),
                starter.module(),
                &starter.admin(&name),
            )?;
            bootstrap::set_agent_drain_call(&mut bootstrap, agent.port())?;
            bootstrap
        } else {
            let listener = bootstrap::listener("main", "app", &Value::Null, &[]);
            bootstrap::plain(
                &starter.admin(&name),
                vec![listener],
                vec![bootstrap::cluster("app", &[app.port()])],
            )
        };
        let proxy = Arc::new(starter.start(&name, &bootstrap)?);
        agent.attach_proxy(Arc::clone(&proxy));
        Ok(Self { app, agent, proxy, lane, inbound: 0, gate: 0 })
    }

    pub(super) fn ready(mut self, stop: &Clock) -> Result<Self, String> {
        self.proxy.ready(stop)?;
        self.inbound = self.proxy.port("main")?;
        if self.lane == Lane::Laststream {
            self.gate = self.proxy.port("gate")?;
        }
        Ok(self)
    }

    /// The reason for the end of the pod's Envoy.
    pub(super) fn ended_by(&self) -> EndedBy {
        if !self.proxy.has_ended() {
            return EndedBy::StillRunning;
        }
        self.agent.ended_by().unwrap_or(EndedBy::Itself)
    }

    /// The app's container, and how kubelet stops it.
    pub(super) fn stopping_app(&self, times: &Times) -> Stopping<'_> {
        let hook = (self.lane == Lane::AppSleeps).then(|| Hook::sleep(times));
        Stopping { container: &self.app, who: Actor::App, hook, after: None }
    }

    /// The proxy's container, and how kubelet stops it.
    pub(super) fn stopping_proxy(&self, times: &Times) -> Stopping<'_> {
        let hook = match self.lane {
            Lane::Laststream => Some(Hook::wait(self.gate, times)),
            Lane::Netstat => Some(Hook::netstat(&self.app, Some(&self.agent), times)),
            Lane::NetstatFixed => Some(Hook::netstat(&self.app, None, times)),
            Lane::NativeSidecar => Some(Hook::request_drain(self.agent.port(), times)),
            Lane::NoHook | Lane::AppSleeps | Lane::ExitOnZero | Lane::Retries => None,
        };
        Stopping {
            container: &self.agent,
            who: Actor::Proxy,
            hook,
            after: self.lane.is_native().then_some(&self.app),
        }
    }
}

/// A caller in the mesh that keeps its connection, which was used once and is idle now.
pub(super) fn idle_connection(port: u16) -> Result<Http, String> {
    let caller = Http::new(Route::Direct, true);
    let used = caller.request(
        Method::GET,
        &format!("http://127.0.0.1:{port}/headers"),
        &[],
        Duration::from_secs(10),
    );
    used.context("a first request to a sidecar failed")?;
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
