//! The set-up of a round: an Envoy with two gates, listeners with and without the module, and
//! everything that the round may change.

use std::sync::Arc;

use fastrand::Rng;
use tokio::time::Instant;

use super::admin::Signals;
use super::streams::{Kind, Stream};
use super::view::{Holds, Id, View};
use crate::cases::gate::bench::{SOON, gate_listener_with, options};
use crate::cases::gate::deaths::with_test_deaths;
use crate::cases::gate::{by_envoy, program};
use crate::cases::stage::clusters;
use crate::lab::Lab;
use kit::admin_proxy::AdminProxy;
use kit::bootstrap::extension;
use kit::bootstrap::filters::{Wasm, discovered};
use kit::clock::WallClock;
use kit::prelude::*;
use kit::process::Process;
use kit::wire::{free_port, local};
use kit::xds::Xds;

/// The duration of the states `expired` and `forced`.
pub(super) const OPEN: Duration = Duration::from_secs(1);
const FILTER: &str = "laststream";
pub(super) const GATES: [&str; 2] = ["gate", "other-gate"];
/// No request has this path.
const NOWHERE: &str = "/nowhere";
const FAULT: &str = "envoy.extensions.filters.http.fault.v3.HTTPFault";
const RBAC: &str = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC";

/// The settings that differ from round to round.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) deadline: Duration,
    /// Long-lived streams do not hold.
    exempts: bool,
    /// The second gate waits for the same streams as the first, and differs in its name only.
    pub(super) twins: bool,
    begin: &'static str,
    /// WebSockets pass no filter but the router.
    bare_sockets: bool,
    /// No reload and no death, so the gate always knows which streams it need not wait for.
    pub(super) is_steady: bool,
    /// The first gate counts by Envoy alone.
    pub(super) by_envoy: bool,
    /// The last call of the first gate's drains is a quit. Envoy never gets it, and it is refused.
    pub(super) quits: bool,
    pub(super) host: Host,
}

/// What the first gate runs in; the second one always runs in Envoy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cases) enum Host {
    Envoy,
    /// The program beside Envoy, which counts by Envoy alone.
    Program,
}

impl Host {
    /// The longest drain with nothing in flight, on a busy machine: a few quiet periods, the pause
    /// behind a slow answer, a worker that is silent for ten seconds. For the program, an Envoy
    /// that gets no processor is such a worker.
    pub(super) fn idle_drain(self) -> Duration {
        Duration::from_secs(if self == Self::Envoy { 30 } else { 120 })
    }
}

impl Plan {
    /// Chosen by the seed's number and not at random, so that six rounds in a row play every value,
    /// the short deadline with and without reloads, and steady rounds with and without exempt
    /// streams.
    fn new(seed: u64, host: Host) -> Self {
        Self {
            deadline: Duration::from_millis(if seed % 3 == 2 { 2_500 } else { 60_000 }),
            exempts: seed % 2 == 1,
            twins: seed % 5 < 3,
            begin: match seed / 2 % 3 {
                0 => "nothing",
                1 => "fail_health_checks",
                _ => "drain_listeners",
            },
            bare_sockets: seed / 3 % 2 == 1,
            is_steady: seed % 4 < 2,
            by_envoy: host == Host::Program || matches!(seed % 6, 3 | 4),
            quits: seed % 3 == 1,
            host,
        }
    }

    /// Whether the gate need not wait for a stream of this kind, and can know that.
    pub(super) fn is_idle(&self, kind: Kind) -> bool {
        self.holds(kind).gates == [false; 2] && !(self.bare_sockets && kind == Kind::WebSocket)
    }

    /// The gates that wait for streams of this kind.
    fn holds(&self, kind: Kind) -> Holds {
        let is_exempt = kind == Kind::Excluded || (self.exempts && kind.is_long_lived());
        // Envoy does not know rules, but upgrades.
        let is_upgrade = self.exempts && kind == Kind::WebSocket;
        let holds_first = if self.by_envoy { !is_upgrade } else { !is_exempt };
        let gates = match kind.is_outbound() {
            true => [false, !is_exempt && !self.twins],
            false => [holds_first, !is_exempt && self.twins],
        };
        Holds { gates, is_exempt }
    }

    /// The fields of a gate.
    fn gate(&self, number: usize) -> Value {
        let scope = if number == 0 || self.twins { "inbound" } else { "outbound" };
        let begin = json!({ "call": self.begin });
        let count = if number == 0 && self.by_envoy { "envoy" } else { "filter" };
        let finish = if self.quits && number == 0 { "quit" } else { "nothing" };
        let by_program = number == 0 && self.host == Host::Program;
        json!({
            "quiet_ms": if by_program { 900 } else { 250 },
            "deadline_ms": self.deadline.as_millis(), "open_ms": OPEN.as_millis(),
            "scopes": [scope], "count": count, "begin": begin, "finish": finish,
            "long_lived": if self.exempts { "exempt" } else { "wait" },
        })
    }
}

/// The round's knowledge of a gate.
pub(super) struct Gate {
    pub(super) address: SocketAddr,
    /// The time of the last request that the gate answered as `serving`. A present drain began
    /// after it.
    pub(super) served: Instant,
    pub(super) forced: Option<Instant>,
}

impl Gate {
    async fn of(envoy: &Envoy, name: &str) -> Outcome<Self> {
        envoy.address(name).await.map(Self::at)
    }

    fn at(address: SocketAddr) -> Self {
        Self { address, served: Instant::now(), forced: None }
    }
}

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) rng: Rng,
    pub(super) envoy: Envoy,
    pub(super) upstream: Arc<Upstream>,
    pub(super) view: Arc<View>,
    pub(super) signals: Arc<Signals>,
    pub(super) clock: WallClock,
    pub(super) gates: [Gate; 2],
    pub(super) main: SocketAddr,
    plain: SocketAddr,
    outbound: SocketAddr,
    pub(super) streams: Vec<Stream>,
    pub(super) began: Instant,
    /// Drains that may begin besides those that a deadline has ended.
    pub(super) resets: u64,
    pub(super) deaths: u64,
    /// Answers of 200 to `/prestop` and `/ready`, and signals that passed.
    pub(super) opened: u64,
    pub(super) passed: u64,
    /// The arrivals of drains' last calls.
    pub(super) last_calls: Vec<Instant>,
    /// Stalls of a worker, and times of trouble at the admin interface.
    pub(super) stalls: u64,
    pub(super) troubles: u64,
    /// The first gate, unless it runs in Envoy.
    pub(super) program: Option<Process>,
    lab: Lab,
    xds: Xds,
    reloads: u32,
    proxy: AdminProxy,
}

impl World {
    pub(super) async fn new(lab: &Lab, seed: u64, host: Host) -> Outcome<Self> {
        let (plan, lab, rng) =
            (Plan::new(seed, host), with_test_deaths(lab)?, Rng::with_seed(seed));
        let (upstream, view, signals) =
            (Arc::new(Upstream::start().await?), Arc::<View>::default(), Arc::<Signals>::default());
        let (judge, seen) = (Arc::clone(&signals), Arc::clone(&view));
        let proxy = AdminProxy::start(move |method, path| judge.judge(&seen, method, path))?;
        let (xds, clock) = (Xds::new()?, WallClock::new()?);
        let bootstrap = bootstrap(&lab, &plan, &xds)?.cluster(proxy.cluster());
        let options = Options { under: clock.under(), ..options() };
        let envoy =
            Envoy::start(&lab.envoy, clusters(bootstrap, &upstream).build(), options).await?;
        proxy.forward_to(&envoy);
        let first = match plan.host {
            Host::Envoy => Gate::of(&envoy, GATES[0]).await?,
            Host::Program => Gate::at(local(free_port()?)),
        };
        let mut world = Self {
            gates: [first, Gate::of(&envoy, GATES[1]).await?],
            main: envoy.address("main").await?,
            plain: envoy.address("plain").await?,
            outbound: envoy.address("outbound").await?,
            streams: Vec::new(),
            began: Instant::now(),
            resets: 0,
            deaths: 0,
            opened: 0,
            passed: 0,
            last_calls: Vec::new(),
            stalls: 0,
            troubles: 0,
            lab,
            rng,
            envoy,
            upstream,
            view,
            signals,
            clock,
            plan,
            xds,
            reloads: 0,
            proxy,
            program: None,
        };
        world.start_program().await?;
        Ok(world)
    }

    /// Starts the program, if that is the first gate. One that runs is killed before.
    pub(super) async fn start_program(&mut self) -> Outcome {
        if self.plan.host == Host::Envoy {
            return Ok(());
        }
        let (fields, address) = (self.plan.gate(0).to_string(), self.gates[0].address);
        self.program = None;
        self.program = Some(program::start(&self.proxy.address().to_string(), &fields, address)?);
        self.gates[0] = Gate::at(address);
        wait_for(SOON, "the program", async || Client::connect(address).await.map(drop)).await
    }

    pub(super) fn begin(&mut self, kind: Kind) -> Id {
        let at = match kind {
            Kind::OtherListener => self.plain,
            Kind::Outbound => self.outbound,
            _ => self.main,
        };
        let stream = Stream::begin(kind, at, self.plan.holds(kind), &self.view, &self.upstream);
        let id = stream.id;
        self.streams.push(stream);
        id
    }

    /// Another configuration of the filter of `main`, by discovery; some of them do not count.
    pub(super) async fn reload(&mut self) -> Outcome<&'static str> {
        self.reloads += 1;
        let number = self.reloads.to_string();
        let (what, config) = match self.rng.u8(0..4) {
            0 => ("a filter that does not count", json!({ "@type": RBAC })),
            1 => ("the first configuration", counting(&self.lab, "", NOWHERE)),
            2 => ("another VM", counting(&self.lab, &number, NOWHERE)),
            _ => ("another rule", counting(&self.lab, "", &format!("{NOWHERE}/{number}"))),
        };
        self.xds.replace_filter(&self.envoy, FILTER, &config).await?.accepted()?;
        Ok(what)
    }

    /// Installs a filter that counts, whatever filter the round has left there.
    pub(super) async fn count_again(&mut self) -> Outcome {
        let config = counting(&self.lab, "", NOWHERE);
        self.xds.replace_filter(&self.envoy, FILTER, &config).await?.accepted()
    }

    /// Another listener `main` on the same port.
    pub(super) async fn replace_main(&mut self) -> Outcome {
        let buffer = 1 << 20 | self.rng.u32(1..1_000);
        let listener = main(&self.xds, &self.plan, self.main.port(), buffer);
        self.xds.replace_listeners(&self.envoy, &[listener]).await?.accepted()
    }
}

/// All listeners; the clusters are missing.
fn bootstrap(lab: &Lab, plan: &Plan, xds: &Xds) -> Outcome<Bootstrap> {
    xds.write_filter(FILTER, &counting(lab, "", NOWHERE))?;
    xds.write_listeners(&[main(xds, plan, free_port()?, 1 << 20)])?;
    let first = (plan.host == Host::Envoy).then(|| gate(lab, plan, 0));
    let listeners = [plain(), outbound(lab), gate(lab, plan, 1)].into_iter().chain(first);
    let bootstrap = by_envoy::layers(&[]).listeners_from(xds);
    Ok(listeners.fold(bootstrap, Bootstrap::listener))
}

fn rules(excluded: &str) -> String {
    let exclude = json!({ "paths": [{ "prefix": "/hold/excluded" }, { "prefix": excluded }] });
    let long_lived = json!({ "upgrades": true, "paths": [{ "prefix": "/hold/long" }] });
    json!({ "scope": "inbound", "count": { "exclude": exclude, "long_lived": long_lived } })
        .to_string()
}

/// The filter of `main`, in this VM and with one more rule.
fn counting(lab: &Lab, vm: &str, excluded: &str) -> Value {
    Wasm { vm_configuration: vm, ..lab.stream(&rules(excluded)) }.typed_config()
}

fn main(xds: &Xds, plan: &Plan, port: u16, buffer: u32) -> Listener {
    let delay = json!({ "delay": { "header_delay": {}, "percentage": { "numerator": 100 } } });
    let hcm = Hcm::new("inbound_0.0.0.0_80")
        .filter(extension("envoy.filters.http.fault", FAULT, delay))
        .filter(discovered(FILTER, xds));
    let hcm = if plan.bare_sockets { hcm.upgrades_with(&[]) } else { hcm.upgrades() };
    let hcm = hcm
        .route(by_envoy::latch())
        .route(Route::prefix("/hold/off/").cluster("app").timeout("0s").without_filter(FILTER))
        .route(Route::prefix("/redirect/").cluster("app").timeout("0s").follow_redirects())
        .route(Route::prefix("/").cluster("app").timeout("0s"));
    Listener::new("main", hcm).direction("INBOUND").port(port).buffer_limit(buffer)
}

fn to_the_app(hcm: Hcm) -> Hcm {
    hcm.route(by_envoy::latch()).route(Route::prefix("/").cluster("app").timeout("0s"))
}

fn plain() -> Listener {
    Listener::new("plain", to_the_app(Hcm::new("inbound_0.0.0.0_81"))).direction("INBOUND")
}

fn outbound(lab: &Lab) -> Listener {
    let filter = Wasm { name: "outbound", ..lab.stream(r#"{"scope": "outbound"}"#) }.filter();
    Listener::new("outbound", to_the_app(Hcm::new("outbound_0.0.0.0_80").filter(filter)))
        .direction("OUTBOUND")
}

/// Both gates run in the same VM.
fn gate(lab: &Lab, plan: &Plan, number: usize) -> Listener {
    let mut fields = plan.gate(number);
    fields["hosts"] = json!(["test.local"]);
    let text = json!({ "role": "gate", "gate": fields }).to_string();
    let filter =
        Wasm { name: GATES[number], vm_configuration: "gate", ..lab.stream(&text) }.filter();
    gate_listener_with(GATES[number], filter)
}
