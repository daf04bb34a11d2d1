//! E2: the findings of `laststream lint --change` about a change, compared with the listeners that
//! Envoy replaces when istiod has sent it.

use tokio::time::sleep;

use super::delivery::sidecar_objects;
use super::stage::{SOON, Stage};
use crate::agent::{Agent, Proxy};
use crate::seen::row;
use kit::prelude::*;
use kit::wire::free_port;

/// How long Envoy takes for everything that istiod pushes together.
const SETTLED: std::time::Duration = std::time::Duration::from_secs(2);

/// A change, with a word that only the changed Envoy configuration has, and the rule that must find
/// it.
struct Change {
    what: &'static str,
    old: Value,
    new: Value,
    mark: &'static str,
    rule: &'static str,
}

impl Change {
    fn replaces(&self) -> bool {
        self.rule != "LS714"
    }
}

pub(super) async fn of_a_gateway() -> Outcome {
    let stage = Stage::new("e2").await?;
    stage.apply(&stage.gateway_objects(json!({}))).await?;
    let agent = stage.gateway(&[]).await?;
    stage.answers(200).await?;
    for change in changes(&stage) {
        compare(&stage, &agent, &change).await?;
    }
    stage.answers(200).await
}

/// Inbound routes of a sidecar are in the filter chains, so a change of them replaces the listener.
pub(super) async fn of_a_sidecar() -> Outcome {
    let stage = Stage::new("e2-sidecar").await?;
    stage.apply(&sidecar_objects(&stage, free_port()?)).await?;
    let labels = &[("app", stage.name)];
    let agent = stage.proxy(&Proxy { labels, sidecar: true, ..Proxy::default() }).await?;
    stage.answers(200).await?;
    let change = Change {
        what: "inbound routes of a sidecar",
        old: inbound_routes(&stage, "471s"),
        new: inbound_routes(&stage, "473s"),
        mark: "473s",
        rule: "LS706",
    };
    compare(&stage, &agent, &change).await?;
    stage.answers(200).await
}

async fn compare(stage: &Stage, agent: &Agent, change: &Change) -> Outcome {
    stage.apply(std::slice::from_ref(&change.old)).await?;
    sleep(SETTLED).await;
    let before = replaced(agent).await?;
    stage.apply(std::slice::from_ref(&change.new)).await?;
    wait_for(SOON, change.what, async || {
        let dump = agent.admin_get("/config_dump").await?.expect(200)?.text();
        ensure!(dump.contains(change.mark), "`{}` has not arrived", change.mark);
        Ok(())
    })
    .await?;
    sleep(SETTLED).await;
    let listeners = replaced(agent).await? - before;
    ensure_eq!(listeners > 0, change.replaces(), "listeners of {}", change.what);
    let found = lint(stage, change)?;
    ensure!(found.contains(change.rule), "{}: {found}", change.what);
    ensure_eq!(found.contains("drainDuration"), change.replaces(), "{found}");
    row(
        "E2",
        format!("{}: listeners that Envoy replaces, and `lint --change`", change.what),
        format!("{listeners}; {}", change.rule),
    );
    Ok(())
}

/// Listeners that Envoy has replaced, whole or in place.
async fn replaced(agent: &Agent) -> Outcome<u64> {
    let mut sum = 0;
    for name in ["listener_modified", "listener_in_place_updated", "listener_added"] {
        sum += agent.stat(&format!("listener_manager.{name}")).await?.unwrap_or_default();
    }
    Ok(sum)
}

fn lint(stage: &Stage, change: &Change) -> Outcome<String> {
    let old = stage.user.argument("old.yaml", change.old.to_string())?;
    let new = stage.user.argument("new.yaml", change.new.to_string())?;
    Ok(stage.laststream(&["lint", "--change", &old, &new], "")?.stdout)
}

fn changes(stage: &Stage) -> Vec<Change> {
    let selector = json!({ "matchLabels": { "istio": stage.selector } });
    let policy = |path: &str| {
        let rule = json!({ "to": [{ "operation": { "notPaths": [path] } }] });
        stage.object(
            "security",
            "AuthorizationPolicy",
            "paths",
            json!({ "selector": selector, "action": "ALLOW", "rules": [rule] }),
        )
    };
    let logs = |filter: &str| {
        let logging = json!([{
            "providers": [{ "name": "envoy" }], "filter": { "expression": filter }
        }]);
        stage.object(
            "telemetry",
            "Telemetry",
            "logs",
            json!({ "selector": selector, "accessLogging": logging }),
        )
    };
    let route = |header: &str| {
        let host = format!("app.{}.test", stage.name);
        let route = json!({
            "route": [{ "destination": { "host": host, "port": { "number": 80 } } }],
            "headers": { "request": { "add": { header: "1" } } },
        });
        stage.object(
            "networking",
            "VirtualService",
            stage.name,
            json!({ "hosts": ["*"], "gateways": [stage.name], "http": [route] }),
        )
    };
    let gateway = |hosts: &[&str]| {
        let server = json!({
            "port": { "number": stage.port, "name": "http", "protocol": "HTTP" },
            "bind": "127.0.0.1", "hosts": hosts,
        });
        let spec = json!({ "selector": { "istio": stage.selector }, "servers": [server] });
        stage.object("networking", "Gateway", stage.name, spec)
    };
    vec![
        Change {
            what: "an AuthorizationPolicy",
            old: policy("/e2-one"),
            new: policy("/e2-two"),
            mark: "/e2-two",
            rule: "LS707",
        },
        Change {
            what: "access logs of a Telemetry",
            old: logs("response.code >= 471"),
            new: logs("response.code >= 472"),
            mark: "472",
            rule: "LS709",
        },
        Change {
            what: "an HTTP filter of inline code",
            old: filter(stage, "-- e2-one"),
            new: filter(stage, "-- e2-two"),
            mark: "-- e2-two",
            rule: "LS706",
        },
        Change {
            what: "a buffer limit of the listener",
            old: listener(stage, 65_537),
            new: listener(stage, 65_539),
            mark: "65539",
            rule: "LS705",
        },
        Change {
            what: "a route of a VirtualService",
            old: route("x-e2-one"),
            new: route("x-e2-two"),
            mark: "x-e2-two",
            rule: "LS714",
        },
        Change {
            what: "hosts of a Gateway without TLS",
            old: gateway(&["*"]),
            new: gateway(&["*", "e2-host.test"]),
            mark: "x-e2-two",
            rule: "LS714",
        },
    ]
}

fn envoy_filter(stage: &Stage, label: &str, name: &str, patch: Value) -> Value {
    let metadata = json!({ "name": name, "namespace": stage.name });
    json!({
        "apiVersion": "networking.istio.io/v1alpha3", "kind": "EnvoyFilter", "metadata": metadata,
        "spec": {
            "workloadSelector": { "labels": { label: stage.selector } }, "configPatches": [patch],
        },
    })
}

fn filter(stage: &Stage, code: &str) -> Value {
    let lua = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
        "default_source_code": { "inline_string": code },
    });
    let matches = json!({
        "context": "GATEWAY",
        "listener": { "filterChain": {
            "filter": { "name": "envoy.filters.network.http_connection_manager" }
        } },
    });
    let value = json!({ "name": "e2", "typed_config": lua });
    let patch = json!({ "operation": "INSERT_FIRST", "value": value });
    envoy_filter(
        stage,
        "istio",
        "inline",
        json!({ "applyTo": "HTTP_FILTER", "match": matches, "patch": patch }),
    )
}

fn listener(stage: &Stage, limit: u32) -> Value {
    let value = json!({ "per_connection_buffer_limit_bytes": limit });
    let patch = json!({ "operation": "MERGE", "value": value });
    envoy_filter(
        stage,
        "istio",
        "limit",
        json!({ "applyTo": "LISTENER", "match": { "context": "GATEWAY" }, "patch": patch }),
    )
}

fn inbound_routes(stage: &Stage, timeout: &str) -> Value {
    let value = json!({ "route": { "timeout": timeout } });
    let patch = json!({ "operation": "MERGE", "value": value });
    let matches = json!({ "context": "SIDECAR_INBOUND" });
    envoy_filter(
        stage,
        "app",
        "routes",
        json!({ "applyTo": "HTTP_ROUTE", "match": matches, "patch": patch }),
    )
}
