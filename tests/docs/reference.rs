//! Tables of metrics and presets, from the types they are about.

use laststream_filter::config::wire::Scope;
use laststream_filter::config::{self, schema};
use laststream_filter::forwarded::Verdict;
use laststream_filter::gate::machine::Trust;
use laststream_filter::host::Kind;
use laststream_filter::metrics;
use serde_json::json;

use crate::support::failure::{Context as _, Outcome};

pub(super) fn all_metrics() -> String {
    let scope = Scope::Gateway;
    let shown = |name: String| name.replace("gateway", "SCOPE");
    let mut rows = String::from("| metric | type | counts |\n|---|---|---|\n");
    let mut row = |name: String, kind: &str, about: &str| rows.push_str(&format!("| `{}` | {kind} | {about} |\n", shown(name)));
    row(metrics::in_flight(scope), "gauge", "streams in flight, over all workers");
    row(metrics::long_lived(scope), "gauge", "those of them that are long-lived");
    row(metrics::begun(scope), "counter", "streams that were ever counted");
    row(metrics::excluded(scope), "counter", "streams that a rule under `count.exclude` left out");
    for verdict in Verdict::ALL {
        row(metrics::forwarded_proto(verdict, scope), "counter", about(verdict));
    }
    rows
}

pub(super) fn gate_metrics() -> String {
    let about: [&str; metrics::GATE.len()] = [
        "0 serving, 1 draining, 2 drained, 3 expired, 4 forced",
        "how long the drain has gone on, or took",
        "streams that began after the drain did",
        "signals that were refused because of streams in flight, or because it is not known that there are none",
        "how often a leaked count was put right",
        "drains that the deadline ended",
        "how often the gate was forced open",
        "streams that the gate ended: reserved, it ends none yet and this stays 0",
    ];
    let mut rows = String::from("| metric | type | tells |\n|---|---|---|\n");
    for ((kind, name), about) in metrics::GATE.into_iter().zip(about) {
        let kind = if kind == Kind::Counter { "counter" } else { "gauge" };
        rows.push_str(&format!("| `{name}` | {kind} | {about} |\n"));
    }
    for trust in Trust::ALL {
        rows.push_str(&format!(
            "| `{}` | gauge | 1 while the count is `{}`, else 0; as of the last look |\n",
            metrics::count(*trust),
            trust.name()
        ));
    }
    rows.push_str(&format!(
        "| `{}` | gauge | until when no new stream may begin because a signal passes, in milliseconds of Envoy's monotonic clock; else 0 |\n",
        metrics::CLOSING
    ));
    rows
}

fn about(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Overridden => "trusted peer, `x-forwarded-proto` was something else and was set",
        Verdict::Kept => "trusted peer, `x-forwarded-proto` was already right",
        Verdict::Conflicting => "trusted peer whose headers contradict each other or make no sense",
        Verdict::Silent => "trusted peer that sent none of the headers",
        Verdict::Untrusted => "untrusted peer",
    }
}

/// Each preset, with the headers that the module reads for it.
pub(super) fn presets() -> Outcome<String> {
    let schema = schema::schema();
    let presets = schema["properties"]["forwarded_proto"]["properties"]["presets"]["items"]["oneOf"].as_array();
    let mut rows = String::from("| preset | load balancer | headers that are believed |\n|---|---|---|\n");
    for preset in presets.context("the schema has no presets")? {
        let (name, about) = preset["const"].as_str().zip(preset["description"].as_str()).context("a preset has no name")?;
        let configuration = json!({ "forwarded_proto": { "trust": { "peers": ["192.0.2.1"] }, "presets": [name] } });
        let configuration = config::parse(configuration.to_string().as_bytes()).context(name)?;
        let sources = configuration.forwarded_proto().into_iter().flat_map(|policy| &policy.sources);
        let headers: Vec<String> = sources.map(|source| format!("`{}`", source.header)).collect();
        rows.push_str(&format!("| `{name}` | {} | {} |\n", about.trim_end_matches('.'), headers.join(", ")));
    }
    Ok(rows)
}
