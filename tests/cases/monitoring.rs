//! The files of envoyfilter-manifests/monitoring in a real Prometheus that scrapes two real Envoys:
//! each alert is made to fire and to resolve, and each panel has data.

pub(crate) mod files;
mod prometheus;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::cases::gate::bench::{Bench, bootstrap, gate_listener, options};
use crate::cases::gate::deaths::{kill, with_test_deaths};
use crate::cases::stage::routes;
use crate::lab::{Lab, cases};
use kit::bootstrap::filters::{Wasm, direct_peer};
use kit::h1::Connect;
use kit::prelude::*;
use kit::user::User;
use kit::websocket::WebSocket;
use kit::xds::Xds;
use prometheus::Prometheus;

cases! {
    every_alert_fires_and_resolves,
}

/// Long enough for each alert, because the test shortens the alerts' durations.
const PATIENCE: Duration = Duration::from_secs(60);
const DEADLINE_MS: u64 = 20_000;

const MAIN: &str = r#"{"count": {"long_lived": {"upgrades": true}}, "forwarded_proto": {
    "sources": [{"header": "x-one"}, {"header": "x-two"}], "trust": {"peers": ["127.0.0.1"]}
}}"#;

struct Fleet {
    one: Bench,
    two: Bench,
    /// Listeners of `two`.
    xds: Xds,
    /// The module of `two` can be made to die.
    lab: Lab,
    prometheus: Prometheus,
    /// Its folder has the changed files.
    user: User,
}

fn gate() -> String {
    format!(r#"{{"quiet_ms": 300, "deadline_ms": {DEADLINE_MS}, "evaluate_every_ms": 5000}}"#)
}

fn main_listener(lab: &Lab, stat_prefix: &str) -> Listener {
    let wasm = Wasm { failure_policy: "FAIL_RELOAD", ..lab.stream(MAIN) };
    Listener::new("main", routes(Hcm::new(stat_prefix).filter(direct_peer()).filter(wasm.filter())))
        .direction("INBOUND")
}

/// Without the module: its requests are counted by Envoy alone.
fn uncounted_listener() -> Listener {
    Listener::new("uncounted", routes(Hcm::new("uncounted")))
}

impl Fleet {
    async fn start(lab: &Lab) -> Outcome<Self> {
        let one = Bench::behind(main_listener(lab, "main"), Bootstrap::new(), lab, &gate()).await?;
        let (lab, xds) = (with_test_deaths(lab)?, Xds::new()?);
        xds.write_listeners(&[main_listener(&lab, "main"), uncounted_listener()])?;
        let upstream = Upstream::start().await?;
        let config = bootstrap(&upstream).listeners_from(&xds).build();
        let envoy = Envoy::start(&lab.envoy, config, options()).await?;
        let main = envoy.address("main").await?;
        // The gate's listener is added later.
        let two = Bench { upstream, envoy, main, gate: main };
        let (user, prometheus) = watched(&[&one, &two])?;
        Ok(Self { one, two, xds, lab, prometheus, user })
    }

    async fn fires(&self, alert: &str) -> Outcome {
        self.shows(alert, true).await
    }

    async fn resolves(&self, alert: &str) -> Outcome {
        self.shows(alert, false).await
    }

    async fn shows(&self, alert: &str, fires: bool) -> Outcome {
        let what = format!("{alert} to {}", if fires { "fire" } else { "resolve" });
        wait_for(PATIENCE, &what, async || {
            let firing = self.prometheus.firing().await?;
            ensure!(firing.iter().any(|name| name == alert) == fires, "firing: {firing:?}");
            Ok(())
        })
        .await
    }

    /// Waits until a panel has one series with this value. Such a panel shows zero where there is
    /// nothing to count.
    async fn panel_is(&self, title: &str, expected: &str) -> Outcome {
        let panels = files::panels()?;
        let panel = panels.iter().find(|panel| panel["title"] == title).context("a panel")?;
        wait_for(PATIENCE, &format!("{title} to be {expected}"), async || {
            let series = self.prometheus.series(&asked(panel)).await?;
            ensure!(series.len() == 1 && series[0]["value"][1] == expected, "{series:?}");
            Ok(())
        })
        .await
    }
}

/// The times of the rules, and short ones for the test.
const SHORTER: [(&str, &str); 6] = [
    ("interval: 5s", "interval: 1s"),
    ("[10m]", "[8s]"),
    ("[2m]", "[8s]"),
    ("for: 5m", "for: 2s"),
    (" * 600 >= 10", " * 8 >= 10"),
    ("clamp(1 - 10 / ", "clamp(1 - 2 / "),
];

/// A Prometheus with the project's rules and scrapes for these Envoys.
fn watched(benches: &[&Bench]) -> Outcome<(User, Prometheus)> {
    let targets: Vec<String> =
        benches.iter().map(|bench| bench.envoy.admin().to_string()).collect();
    let user = User::new()?;
    let mut rules = files::read("prometheus-rules.yaml")?;
    for (long, short) in SHORTER {
        ensure!(rules.contains(long), "the rules have no `{long}`");
        rules = rules.replace(long, short);
    }
    user.file("prometheus-rules.yaml", rules)?;
    let mut config = files::yaml("prometheus.static.yaml")?;
    config["global"]["evaluation_interval"] = json!("1s");
    config["scrape_configs"][0]["scrape_interval"] = json!("1s");
    config["scrape_configs"][0]["static_configs"][0]["targets"] = json!(targets);
    // A second job, as another monitor has it: all of Envoy's metrics, under another instance.
    let other = json!({
        "job_name": "envoy", "metrics_path": "/stats/prometheus", "scrape_interval": "1s",
        "static_configs": [{"targets": targets}],
        "relabel_configs": [{
            "source_labels": ["__address__"], "target_label": "instance", "replacement": "other $1",
        }],
    });
    config["scrape_configs"].as_array_mut().context("jobs")?.push(other);
    let file = user.file("prometheus.yaml", config.to_string())?;
    let prometheus = Prometheus::start(&file)?;
    Ok((user, prometheus))
}

/// `laststream size` proposes numbers from Envoy's request durations since the fleet began.
async fn sizes(fleet: &Fleet, began: u64) -> Outcome {
    let (url, user) = (fleet.prometheus.url(), &fleet.user);
    let ask = |selector| {
        let window = format!("{}s", now()? - began);
        let arguments = ["size", "--prometheus", &url, "--window", &window, "-o", "json"];
        user.run(&[&arguments[..], &["--selector", selector]].concat(), "")
    };
    // Envoy merges its histograms every few seconds, and Prometheus reads them after that.
    let said = wait_for(PATIENCE, "durations in Prometheus", async || {
        ask("job=\"envoy\"")?.expect(0)?.json()
    });
    let said = said.await?;
    let longest = said["longest_request_ms"].as_u64();
    // Streams were held for several seconds, and none for longer than the drain.
    ensure!(longest >= Some(1_000) && longest <= Some(60_000), "{said}");
    ask("job=\"none\"")?.expect(2)?.stderr_contains("--selector")?;
    ask("job=")?.expect(2)?.stderr_contains("parse error")?;
    Ok(())
}

fn now() -> Outcome<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

async fn every_alert_fires_and_resolves(lab: &Lab) -> Outcome {
    let began = now()?;
    let mut fleet = Fleet::start(lab).await?;
    fleet.fires("LaststreamGateAbsent").await?;
    fleet.panel_is("Proxies without their gate", "1").await?;
    fleet.panel_is("Drains now", "0").await?;
    let listeners = [main_listener(&fleet.lab, "main"), uncounted_listener()];
    let listeners: Vec<Listener> =
        listeners.into_iter().chain([gate_listener(&fleet.lab, &gate())]).collect();
    fleet.xds.replace_listeners(&fleet.two.envoy, &listeners).await?.accepted()?;
    fleet.two.gate = fleet.two.envoy.address("gate").await?;
    tokio::try_join!(drains(&fleet), schemes(&fleet), async {
        fleet.resolves("LaststreamGateAbsent").await?;
        fleet.panel_is("Proxies without their gate", "0").await?;
        doubts(&fleet).await?;
        forced_and_healed(&fleet).await?;
        configuration_drains(&fleet).await
    })?;
    sizes(&fleet, began).await?;
    series_of_a_killed_envoy_end(&mut fleet).await
}

/// A drain of `one` that a stream holds until the deadline.
async fn drains(fleet: &Fleet) -> Outcome {
    let mut held = fleet.one.held("long").await?;
    fleet.one.post("/drain").await?.expect(202)?;
    // The alert outlasts the drain, and the panel does not.
    fleet.panel_is("Drains now", "1").await?;
    fleet.fires("LaststreamDrainNearDeadline").await?;
    tokio::try_join!(every_panel_has_data(fleet), fleet.fires("LaststreamDrainExpired"))?;
    fleet.resolves("LaststreamDrainNearDeadline").await?;
    fleet.one.release("long", &mut held).await?;
    fleet.resolves("LaststreamDrainExpired").await
}

/// A request that only Envoy counts makes the count of `two` partial.
async fn doubts(fleet: &Fleet) -> Outcome {
    let held = fleet.two.held_at("uncounted", "unseen").await?;
    fleet.fires("LaststreamCountNotExact").await?;
    fleet.two.upstream.release("unseen");
    drop(held);
    fleet.resolves("LaststreamCountNotExact").await
}

/// Requests to `one` until both alerts about the scheme fire; then none.
async fn schemes(fleet: &Fleet) -> Outcome {
    let both = ["LaststreamSchemeConflicting", "LaststreamSchemeUntrusted"];
    let conflicting = Request::get("/echo").header("x-one", "https").header("x-two", "http");
    wait_for(PATIENCE, "the alerts about the scheme", async || {
        let mut stranger = Connect::to(fleet.one.main).from([127, 0, 0, 9].into()).open().await?;
        stranger.request(&Request::get("/echo")).await?.expect(200)?;
        once(fleet.one.main, &conflicting).await?.expect(200)?;
        let firing = fleet.prometheus.firing().await?;
        ensure!(both.iter().all(|alert| firing.iter().any(|name| name == alert)), "{firing:?}");
        Ok(())
    })
    .await?;
    for alert in both {
        fleet.resolves(alert).await?;
    }
    Ok(())
}

/// A worker's VM of `two` dies with streams in its count; then its gate is forced.
async fn forced_and_healed(fleet: &Fleet) -> Outcome {
    let two = &fleet.two;
    let held = two.held_by_both_workers("leak").await?;
    kill(two, "panic").await?;
    two.upstream.release("leak");
    fleet.fires("LaststreamCountHealed").await?;
    drop(held);
    two.post("/force?reason=test").await?.expect(200)?;
    fleet.fires("LaststreamGateForced").await?;
    once(two.gate, &Request::new("DELETE", "/drain")).await?.expect(200)?;
    fleet.resolves("LaststreamCountHealed").await?;
    fleet.resolves("LaststreamGateForced").await
}

/// The filter chain of `two` is replaced while a WebSocket is in flight.
async fn configuration_drains(fleet: &Fleet) -> Outcome {
    let mut socket = WebSocket::open(fleet.two.main, "/ws").await?;
    socket.echo("before").await?;
    let main = main_listener(&fleet.lab, "changed");
    let listeners = [main, uncounted_listener(), gate_listener(&fleet.lab, &gate())];
    fleet.xds.replace_listeners(&fleet.two.envoy, &listeners).await?.accepted()?;
    fleet.fires("LaststreamConfigurationDrains").await?;
    socket.echo("still").await?;
    socket.close(1000).await?;
    fleet.resolves("LaststreamConfigurationDrains").await
}

/// The query that Grafana sends for a panel, for all namespaces and one minute.
fn asked(panel: &Value) -> String {
    let expression = panel["targets"][0]["expr"].as_str().unwrap_or_default();
    expression.replace("$namespace", ".*").replace("$__range", "1m")
}

async fn every_panel_has_data(fleet: &Fleet) -> Outcome {
    for panel in files::panels()? {
        wait_for(PATIENCE, &format!("{} to have data", panel["title"]), async || {
            let series = fleet.prometheus.series(&asked(&panel)).await?;
            ensure!(series.iter().any(|series| series["value"][1] != "NaN"), "{series:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// The recorded series of a killed Envoy end, so it is neither draining nor full of streams.
async fn series_of_a_killed_envoy_end(fleet: &mut Fleet) -> Outcome {
    let address = fleet.one.envoy.admin();
    let recorded = ["laststream:gate_state", "laststream:streams_in_flight"];
    fleet.one.envoy.kill()?;
    for name in recorded {
        let expression = format!("{name}{{instance=\"{address}\"}}");
        wait_for(PATIENCE, &format!("{name} of what has gone to end"), async || {
            let series = fleet.prometheus.series(&expression).await?;
            ensure!(series.is_empty(), "{series:?}");
            let others = fleet.prometheus.series(name).await?;
            ensure!(!others.is_empty(), "{name} of the other Envoy is there");
            Ok(())
        })
        .await?;
    }
    Ok(())
}
