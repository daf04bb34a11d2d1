//! The stop of a proxy, computed from its settings. The rules are those that tests/mesh measures.

use serde::Serialize;

use crate::moment::{Certainty, Moment};
use crate::proxy::{Hook, Job, Proxy, ProxyGate, ProxyKind};

/// The least time in milliseconds that kubelet leaves a container after its stop hook.
const LEAST: u64 = 2_000;
/// The duration of a long request, in milliseconds: Kubernetes' default grace period. A proxy that
/// lets shorter ones end cuts only long streams.
const LONG: u64 = 30_000;

/// Whether laststream helps this proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    #[strum(serialize = "yes")]
    Yes,
    #[strum(serialize = "for long streams only")]
    LongStreams,
    #[strum(serialize = "no")]
    No,
    /// It depends on a setting that is not here.
    #[strum(serialize = "it depends")]
    Unknown,
}

impl Verdict {
    /// The name in tables and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What the next stop of a proxy does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// What ends the proxy.
    pub ended_by: String,
    /// The time after the deletion at which a request in flight is cut: the longest request that
    /// survives.
    pub cut: Moment,
    /// What happens to a connection without a request.
    pub idle: String,
    /// What happens to a stream of hours.
    pub stream: String,
    /// Whether laststream is there, and holds the stop.
    pub is_held: bool,
    /// Whether laststream helps.
    pub verdict: Verdict,
    pub why: String,
    /// The next command, or the next step.
    pub next: String,
}

impl Stop {
    /// The stop of this proxy.
    #[must_use]
    pub fn of(proxy: &Proxy) -> Self {
        match (proxy.kind, proxy.gate) {
            (ProxyKind::AmbientApp, _) => ambient(proxy),
            (_, Some(gate)) => gated(proxy, gate),
            (ProxyKind::NativeSidecar, None) => native(proxy),
            (ProxyKind::Sidecar, None) => unknown_sidecar(proxy),
            (ProxyKind::EnvoyGateway, None) => managed(proxy),
            (ProxyKind::PlainEnvoy, None) if proxy.is_by_xds => by_xds(),
            (ProxyKind::PlainEnvoy, None) => plain(proxy),
            (
                ProxyKind::ChartGateway
                | ProxyKind::GatewayApi
                | ProxyKind::ClassicSidecar
                | ProxyKind::Waypoint,
                None,
            ) => by_agent(proxy),
        }
    }

    /// Whether a request of so many milliseconds is lost, as far as the settings show.
    #[must_use]
    pub fn loses(&self, millis: u64) -> bool {
        self.cut.certainty != Certainty::NotBefore && self.cut.millis < millis
    }
}

/// When SIGTERM reaches the proxy, and when SIGKILL does.
struct Signals {
    term: Moment,
    kill: Moment,
}

impl Signals {
    fn of(proxy: &Proxy) -> Self {
        let Some(grace) = proxy.grace else {
            return Self { term: Moment::not_before(0), kill: Moment::not_before(LEAST) };
        };
        // Kubelet takes a grace period of 0 for 1 s.
        let grace = grace.max(1).saturating_mul(1000);
        let after = |hook: u64| hook.saturating_add(grace.saturating_sub(hook).max(LEAST));
        match proxy.hook {
            Hook::None => Self { term: Moment::known(0), kill: Moment::known(after(0)) },
            Hook::Sleep(hook) => {
                let hook = hook.min(grace);
                Self { term: Moment::known(hook), kill: Moment::known(after(hook)) }
            }
            Hook::Other => Self { term: Moment::not_before(0), kill: Moment::not_before(after(0)) },
        }
    }
}

/// The end of an Envoy that Istio's agent ends after `terminationDrainDuration`, unless SIGKILL is
/// earlier.
fn agent_end(proxy: &Proxy) -> (Moment, bool) {
    let Signals { term, kill } = Signals::of(proxy);
    let drained = match proxy.agent.drain {
        Some(drain) if proxy.agent.is_assumed => {
            Moment { certainty: term.certainty.max(Certainty::IfDefaults), ..term.plus(drain) }
        }
        Some(drain) => term.plus(drain),
        None => Moment { certainty: Certainty::NotBefore, ..term },
    };
    let end = drained.or_earlier(kill);
    (end, end.certainty != Certainty::NotBefore && end.millis < drained.millis)
}

fn by_agent(proxy: &Proxy) -> Stop {
    if proxy.agent.exit_on_zero.is_some() {
        return at_zero_connections(proxy);
    }
    let (cut, is_killed) = agent_end(proxy);
    let after = match proxy.hook {
        Hook::None => "",
        Hook::Sleep(_) | Hook::Other => ", after the stop hook",
    };
    let ended_by = if is_killed {
        "SIGKILL at the end of the grace period".to_owned()
    } else {
        format!("Istio's agent{after}")
    };
    let (verdict, why) =
        of_job(proxy).unwrap_or_else(|| by_length(proxy.kind, cut, "every stop takes as long"));
    Stop {
        ended_by,
        cut,
        idle: "closed then, and holds nothing".to_owned(),
        stream: cut_then(cut),
        is_held: false,
        verdict,
        why,
        next: next(proxy),
    }
}

fn cut_then(cut: Moment) -> String {
    match cut.certainty {
        Certainty::Known | Certainty::IfDefaults => format!("cut after {}", cut.time()),
        Certainty::NotBefore => format!("cut, not before {}", cut.time()),
    }
}

/// The verdict on a proxy that cuts requests, by their length.
fn by_length(kind: ProxyKind, cut: Moment, price: &str) -> (Verdict, String) {
    let time = cut.time();
    if cut.certainty == Certainty::NotBefore && cut.millis < LONG {
        return (Verdict::Unknown, "these settings do not say how long its stop takes".to_owned());
    }
    if cut.millis >= LONG {
        let why = format!("only what takes longer than {time} is cut, and {price}");
        return (Verdict::LongStreams, why);
    }
    let measured =
        if kind == ProxyKind::Waypoint { "; by Istio's source, not measured" } else { "" };
    (Verdict::Yes, format!("what takes longer than {time} is cut{measured}"))
}

/// The agent waits until no connection is left.
fn at_zero_connections(proxy: &Proxy) -> Stop {
    let Signals { kill, .. } = Signals::of(proxy);
    let price = "one idle connection holds the pod until SIGKILL";
    let (verdict, why) = of_job(proxy).unwrap_or_else(|| by_length(proxy.kind, kill, price));
    Stop {
        ended_by: "Istio's agent at 0 connections, or SIGKILL".to_owned(),
        cut: kill,
        idle: format!("holds the pod until SIGKILL, {kill}"),
        stream: cut_then(kill),
        is_held: false,
        verdict,
        why,
        next: next(proxy),
    }
}

/// Kubelet ends a native sidecar after the app.
fn native(proxy: &Proxy) -> Stop {
    let kill = Signals::of(&Proxy { hook: Hook::None, ..*proxy }).kill;
    let why = match proxy.job {
        Job::No => "kubelet keeps the proxy until the app has ended",
        Job::Unended | Job::Ended => "kubelet ends the proxy after the Job's command",
    };
    Stop {
        ended_by: "kubelet, after the app".to_owned(),
        cut: kill,
        idle: "closed after the app, and holds nothing".to_owned(),
        stream: format!("{} at the latest, or with the app", cut_then(kill)),
        is_held: false,
        verdict: Verdict::No,
        why: why.to_owned(),
        next: next(proxy),
    }
}

/// Not known: classic or native. The classic one ends earlier.
fn unknown_sidecar(proxy: &Proxy) -> Stop {
    let (classic, _) = agent_end(proxy);
    Stop {
        ended_by: "Istio's agent, or kubelet after the app".to_owned(),
        cut: Moment { certainty: Certainty::NotBefore, ..classic },
        idle: "closed then".to_owned(),
        stream: "cut".to_owned(),
        is_held: false,
        verdict: Verdict::Unknown,
        why: format!(
            "a classic sidecar (Istio's default before 1.27) cuts after {}; kubelet keeps a \
             native one until the app has ended",
            classic.time()
        ),
        next: "laststream assess --istio VERSION FILE…".to_owned(),
    }
}

/// The stop hook asks the shutdown manager, which waits until no connection is left. Then SIGTERM
/// ends Envoy at once.
fn managed(proxy: &Proxy) -> Stop {
    let kill = Signals::of(proxy).kill;
    if proxy.hook != Hook::None {
        return plain(proxy); // the hook is in place of the one that asks the manager
    }
    let is_assumed = proxy.manager.is_assumed;
    let certainty = if is_assumed { Certainty::IfDefaults } else { Certainty::Known };
    let cut = match proxy.manager.timeout {
        Some(millis) => Moment { millis, certainty }.or_earlier(kill),
        None => Moment::not_before(proxy.manager.least).or_earlier(kill),
    };
    let (verdict, why) = by_length(proxy.kind, cut, "one idle connection holds the pod as long");
    Stop {
        ended_by: "the shutdown manager at 0 connections, or after drainTimeout".to_owned(),
        cut,
        idle: format!("holds the pod, {cut}"),
        stream: cut_then(cut),
        is_held: false,
        verdict,
        why,
        next: next(proxy),
    }
}

/// SIGTERM ends Envoy at once.
fn plain(proxy: &Proxy) -> Stop {
    let Signals { term, .. } = Signals::of(proxy);
    let ended_by = match proxy.hook {
        Hook::None => "SIGTERM, at once",
        Hook::Sleep(_) | Hook::Other => "SIGTERM, after the stop hook",
    };
    let (verdict, why) = by_length(proxy.kind, term, "every stop takes as long");
    let at_once = "what is in flight at SIGTERM is cut";
    Stop {
        ended_by: ended_by.to_owned(),
        cut: term,
        idle: "closed then, and holds nothing".to_owned(),
        stream: cut_then(term),
        is_held: false,
        verdict,
        why: if term == Moment::known(0) { at_once.to_owned() } else { why },
        next: next(proxy),
    }
}

/// The file shows neither the listeners nor what the control plane does at a stop.
fn by_xds() -> Stop {
    Stop {
        ended_by: "not known from files".to_owned(),
        cut: Moment::not_before(0),
        idle: "not known from files".to_owned(),
        stream: "not known from files".to_owned(),
        is_held: false,
        verdict: Verdict::Unknown,
        why: "the listeners come from xDS, and are in no file".to_owned(),
        next: "the admin interface of a running one shows them: curl ADMIN:PORT/listeners"
            .to_owned(),
    }
}

/// The gate ends Envoy, or lets its stop hook go, when the last stream has ended.
fn gated(proxy: &Proxy, gate: ProxyGate) -> Stop {
    let has_agent = !matches!(proxy.kind, ProxyKind::EnvoyGateway | ProxyKind::PlainEnvoy);
    let with_hook = Proxy { hook: Hook::Sleep(gate.deadline), ..*proxy };
    let cut = match (proxy.kind, gate.is_started_by_agent) {
        (ProxyKind::NativeSidecar, _) => Signals::of(&Proxy { hook: Hook::None, ..*proxy }).kill,
        (_, true) => agent_end(proxy).0,
        (_, false) if has_agent => agent_end(&with_hook).0,
        (_, false) => Signals::of(&with_hook).term,
    };
    Stop {
        ended_by: "laststream's gate, after the last stream".to_owned(),
        cut,
        idle: "holds nothing".to_owned(),
        stream: cut_then(cut),
        is_held: true,
        verdict: Verdict::No,
        why: "laststream is there".to_owned(),
        next: "laststream lint FILE…, and in a cluster laststream status".to_owned(),
    }
}

/// No proxy is in the pod: what is in flight ends with the app.
fn ambient(proxy: &Proxy) -> Stop {
    let Signals { term, .. } = Signals::of(proxy);
    let (why, next) = match proxy.hook {
        Hook::None => (
            "no Envoy is in the pod; an app that stops at once refuses requests until its clients \
             know",
            "give the app's container a stop hook `sleep: {seconds: 5}` \
             (docs/assess.md#ambient-apps)",
        ),
        Hook::Sleep(_) | Hook::Other => {
            ("no Envoy is in the pod; the app's stop hook leaves clients time", "nothing")
        }
    };
    Stop {
        ended_by: "the app itself".to_owned(),
        cut: Moment::not_before(term.millis),
        idle: "the app's own".to_owned(),
        stream: "ends with the app".to_owned(),
        is_held: false,
        verdict: Verdict::No,
        why: why.to_owned(),
        next: next.to_owned(),
    }
}

/// The verdict on a Job beside a sidecar that nothing ends.
fn of_job(proxy: &Proxy) -> Option<(Verdict, String)> {
    let why = "the Job does not end: its sidecar goes on after its command";
    (proxy.job == Job::Unended).then(|| (Verdict::Yes, why.to_owned()))
}

/// The command that installs laststream, with the page that says how; or that nothing is to do.
fn next(proxy: &Proxy) -> String {
    let page = match (proxy.kind, proxy.job) {
        (ProxyKind::NativeSidecar, _) => return "nothing".to_owned(),
        (_, Job::Unended | Job::Ended) => "jobs",
        (ProxyKind::ChartGateway, _) => "istio-gateway",
        (ProxyKind::GatewayApi, _) => "gateway-api",
        (ProxyKind::Waypoint, _) => "waypoint",
        (ProxyKind::EnvoyGateway, _) => "envoy-gateway",
        (ProxyKind::PlainEnvoy, _) => "plain-envoy",
        (ProxyKind::ClassicSidecar | ProxyKind::Sidecar | ProxyKind::AmbientApp, _) => "sidecar",
    };
    format!(
        "laststream render all --policy policy.yaml --output-dir laststream # the policy: \
         docs/install/{page}.md"
    )
}
