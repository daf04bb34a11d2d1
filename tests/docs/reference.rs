//! Tables of metrics and presets, from the types they are about.

use laststream_base::time_span::TimeSpan;
use laststream_filter::config::wire::{Preset, Scope};
use laststream_filter::config::{self, schema};
use laststream_filter::forwarded::{FORWARDED_PROTO, Verdict};
use laststream_filter::gate::{CountState, StreamKind, timing};
use laststream_filter::host::MetricKind;
use laststream_filter::metrics;
use laststream_policy::drain_sizing;
use serde_json::json;
use strum::VariantArray as _;

use kit::{Context as _, Outcome, ensure};

/// The times that follow from a longest request, with Istio's agent and without one.
pub(super) fn times() -> Outcome<String> {
    let mut rows = String::from(
        "| longest request | deadline | grace period | `drainDuration` | grace period without \
         Istio |\n|---|---|---|---|---|\n",
    );
    let [none, quiet, agent] = [0, 1, 3].map(TimeSpan::seconds);
    for longest in ["1s", "10s", "20s", "60s", "5m", "15m", "1h"] {
        let time = longest.parse().map_err(kit::Error::msg)?;
        let [istio, plain] = [agent, none].map(|agent| drain_sizing(time, quiet, none, agent));
        let (deadline, drain) = (istio.deadline, istio.drain_time());
        let [grace, alone] = [istio, plain].map(|sizing| sizing.grace_period);
        rows.push_str(&format!("| {longest} | {deadline} | {grace} | {drain} | {alone} |\n"));
    }
    Ok(rows)
}

pub(super) fn all_metrics() -> String {
    let scope = Scope::Gateway;
    let shown = |name: String| name.replace("gateway", "SCOPE");
    let mut rows = String::from("| metric | type | meaning |\n|---|---|---|\n");
    let mut row = |name: String, kind: &str, about: &str| {
        rows.push_str(&format!("| `{}` | {kind} | {about} |\n", shown(name)))
    };
    row(metrics::in_flight(scope), "gauge", "streams in flight, over all workers");
    row(metrics::long_lived(scope), "gauge", "long-lived streams in flight");
    row(metrics::begun(scope), "counter", "streams counted so far");
    row(
        metrics::excluded(scope),
        "counter",
        "streams that a rule under `count.exclude` left uncounted",
    );
    for verdict in Verdict::ALL {
        row(metrics::forwarded_proto(verdict, scope), "counter", about(verdict));
    }
    rows
}

/// Every time of the drain's protocol, and every factor.
pub(super) fn protocol_times() -> String {
    let mut rows = String::from("| name | value | reason |\n|---|--:|---|\n");
    for (times, unit) in [(timing::TIMES, " ms"), (timing::FACTORS, "")] {
        for time in times {
            let (name, value, reason) = (time.name, time.value, time.reason.trim());
            rows.push_str(&format!("| `{name}` | {value}{unit} | {reason} |\n"));
        }
    }
    rows
}

pub(super) fn gate_metrics() -> String {
    let about: [&str; metrics::GATE.len()] = [
        "0 serving, 1 draining, 2 drained, 3 expired, 4 forced",
        "duration of the drain so far, or of the last one",
        "streams that began after the drain had begun",
        "signals that were refused because streams were, or may have been, in flight",
        "how often leaked streams were subtracted from the count",
        "drains that the deadline ended",
        "how often the gate was forced open",
        "streams that the gate ended",
        "the deadline of a drain, from its beginning; set when the gate is configured",
        "streams that hold the drain; at the last evaluation",
        "TCP connections that hold the drain, if the gate waits for them; at the last evaluation",
    ];
    let mut rows = String::from("| metric | type | meaning |\n|---|---|---|\n");
    for ((kind, name), about) in metrics::GATE.into_iter().zip(about) {
        let kind = if kind == MetricKind::Counter { "counter" } else { "gauge" };
        rows.push_str(&format!("| `{name}` | {kind} | {about} |\n"));
    }
    for kind in StreamKind::VARIANTS {
        let about = format!("streams that the gate ended whose kind was `{kind}`");
        rows.push_str(&format!("| `{}` | counter | {about} |\n", metrics::evictions(*kind)));
    }
    for state in CountState::VARIANTS {
        rows.push_str(&format!(
            "| `{}` | gauge | 1 while the count is `{}`, else 0; at the last evaluation |\n",
            metrics::count(*state),
            state
        ));
    }
    rows.push_str(&format!(
        "| `{}` | gauge | while a signal passes: when the latch opens, in milliseconds of Envoy's \
         monotonic clock; else 0 |\n",
        metrics::CLOSING
    ));
    rows
}

fn about(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Overridden => "trusted peer, `x-forwarded-proto` was something else and was set",
        Verdict::Kept => "trusted peer, `x-forwarded-proto` was already right",
        Verdict::Conflicting => {
            "trusted peer whose headers contradict each other or have unknown values"
        }
        Verdict::Silent => {
            "trusted peer that sent none of the headers, or with `nlb` no port that tells a scheme"
        }
        Verdict::Untrusted => "untrusted peer",
    }
}

/// Each preset, with the headers that the module reads for it and the vendor's page about them.
pub(super) fn presets() -> Outcome<String> {
    let schema = schema::schema();
    let presets =
        schema["properties"]["forwarded_proto"]["properties"]["presets"]["items"]["oneOf"]
            .as_array();
    let mut rows = String::from(
        "| preset | load balancer | headers that are believed | documentation |\n\
         |---|---|---|---|\n",
    );
    for preset in presets.context("the schema has no presets")? {
        let (name, about) = preset["const"]
            .as_str()
            .zip(preset["description"].as_str())
            .context("a preset has no name")?;
        ensure_tested(name)?;
        rows.push_str(&format!(
            "| `{name}` | {} | {} | {} |\n",
            super::fields::one_line(about).trim_end_matches('.'),
            believed(name).with_context(|| name.to_owned())?,
            documentation(name).with_context(|| name.to_owned())?,
        ));
    }
    Ok(rows)
}

/// The tables of the cases about load balancers.
const ROWS: [&str; 2] = [
    include_str!("../cases/forwarded_proto/presets.md"),
    include_str!("../cases/forwarded_proto/proxy-protocol.md"),
];

/// A preset without rows has never met an Envoy.
fn ensure_tested(preset: &str) -> Outcome {
    let policy = format!("\"presets\": [\"{preset}\"");
    ensure!(ROWS.iter().any(|rows| rows.contains(&policy)), "{preset} has no rows in presets.md");
    Ok(())
}

/// The headers, or the port, that the module reads for a preset.
fn believed(preset: &str) -> Outcome<String> {
    // With the header's name at the load balancer, not the name under which it is saved.
    let sources = json!({
        "trust": { "peers": ["192.0.2.1"] }, "presets": [preset],
        "original_header": FORWARDED_PROTO,
    });
    let configuration = json!({ "forwarded_proto": sources });
    let configuration = config::parse(configuration.to_string().as_bytes())?;
    let policy = configuration.forwarded_proto().context("no policy")?;
    let headers: Vec<String> =
        policy.sources.iter().map(|source| format!("`{}`", source.header)).collect();
    Ok(match policy.reads_destination {
        true => "the destination port of the PROXY protocol header".into(),
        false => headers.join(", "),
    })
}

/// A link to the vendor's page, under the name of its host.
fn documentation(preset: &str) -> Outcome<String> {
    let page = serde_json::from_value::<Preset>(preset.into())?.documentation();
    let (host, _) = page
        .strip_prefix("https://")
        .and_then(|rest| rest.split_once('/'))
        .context("no link to the vendor's documentation")?;
    Ok(format!("[{host}]({page})"))
}
