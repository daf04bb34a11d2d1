//! Policies by chance over all placements: what is rendered from them has no finding, and a policy
//! with mistakes becomes one by doing what the messages say.

use fastrand::Rng;
use laststream_lint::{Assume, SourceFile, lint};
use laststream_policy::{Overrides, Policy, PolicyError, PolicyProblem};
use laststream_render::{File, Kind, render};
use serde_json::{Value, json};

use crate::support::described;

const POLICIES: usize = 280;
const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

const PLACEMENTS: [&str; 14] = [
    "{sidecar: {selector: {app: shop}}}",
    "{gateway: {selector: {app: edge}}}",
    "{gateway: {}}",
    "{gateway_api: {gateway: edge}}",
    "{gateway_api: {class: istio}}",
    "{sidecar: {native: true, selector: {app: shop}, workload: shop}}",
    "{sidecar: {native: false, selector: {app: shop}, workload: shop}}",
    "{waypoint: {gateway: waypoint}}",
    "{waypoint: {class: istio-waypoint}}",
    "{envoy_gateway: {gateway: edge, listeners: [http]}}",
    "{envoy: {}}",
    "{gateway_api: {gateway: edge, autoscaler: {maxReplicas: 3}}}",
    "{sidecar: {directions: [inbound], selector: {app: shop}}}",
    "{sidecar: {directions: [outbound], selector: {app: shop}}}",
];

/// Values of fields, each with its path; some fit a few placements only, some none.
const FIELDS: [(&str, &str); 71] = [
    ("/drain/agent", "90s"),
    ("/drain/longest_request", "1h"),
    ("/end", "{websocket: exempt, grpc: exempt}"),
    ("/websockets", "{module: \"oci://h/frames:1\", routes: [{prefix: /ws}]}"),
    ("/namespace", "shop"),
    ("/istio", "\"1.30\""),
    ("/istio", "latest"),
    ("/name", "Edge"),
    ("/labels", "{team: edge}"),
    ("/delivery", "image_volume"),
    ("/delivery", "volume"),
    ("/delivery", "program"),
    ("/program_image", "registry.example.com/hook:1"),
    ("/pull_secret", "registry"),
    ("/failure_policy", "closed"),
    ("/failure_policy", "reload"),
    ("/failure_policy", "fail_open"),
    ("/profile", "streaming"),
    ("/engine", "wasm"),
    ("/engine", "native"),
    ("/engine", "lua"),
    ("/stream_idle", "1h"),
    ("/count", "{by: envoy}"),
    ("/count", "{by: envoy, tcp: [5432]}"),
    ("/count", "{exclude: {health_checks: true}}"),
    ("/count", "{exclude: {headers: [{name: x, prefix: \"12:30 # }{é\"}]}}"),
    ("/count", "{exclude: {health_check: true}}"),
    ("/count", "{exclude: {paths: [/healthz]}}"),
    ("/count", "{long_lived: {upgrades: true, grpc: true}}"),
    ("/forwarded_proto", "{presets: [aws_alb], trust: {peers: [10.0.0.0/16]}}"),
    ("/forwarded_proto", "{presets: [gcp], trust: {peers: [10.0.0.0/16]}, fallback: http}"),
    ("/forwarded_proto", "{presets: [nlb], trust: {peers: [10.0.0.0/16]}}"),
    ("/forwarded_proto", "{presets: [alb], trust: {peers: [10.0.0.1/16]}}"),
    ("/forwarded_for", "xff"),
    ("/gate", "{enabled: false}"),
    ("/gate/port", "16500"),
    ("/gate/port", "15090"),
    ("/gate/port", "many"),
    ("/gate/hosts", "[gate.shop]"),
    ("/gate/evaluate_every", "10s"),
    ("/gate/notify", "{cluster: \"inbound|8080||\", path: /drain}"),
    ("/gate/notify", "{cluster: app, path: drain, timeout: 5m}"),
    ("/gate/secret", "{environment: LASTSTREAM_SECRET}"),
    ("/gate/secret", "open"),
    ("/drain/longest_request", "1m"),
    ("/drain/longest_request", "one minute"),
    ("/drain/grace_period", "2m"),
    ("/drain/grace_period", "30"),
    ("/drain/deadline", "50s"),
    ("/drain/quiet", "2s"),
    ("/drain/delay", "3s"),
    ("/drain/behind", "aws_nlb"),
    ("/drain/behind", "aws_alb"),
    ("/drain/agent", "10s"),
    ("/drain/starts", "hook"),
    ("/drain/starts", "agent"),
    ("/drain/begin", "fail_health_checks"),
    ("/drain/finish", "quit"),
    ("/drain/long_lived", "exempt"),
    ("/drain/long_lived_after", "5m"),
    ("/drain/exit_on_zero", "true"),
    ("/drain/wait_for_app", "{cluster: \"inbound|8080||\"}"),
    ("/end", "{websocket: end, event_stream: end, over: 20s}"),
    ("/end", "{waiting: exempt, retry_after: {from: 10m, to: 90s}}"),
    ("/websockets", "{module: \"oci://h/frames:1\", routes: [{name: chat}]}"),
    ("/streams", "{show: path}"),
    ("/retries", "{host: shop, attempts: 2, per_try_timeout: 1s}"),
    ("/drain/grace_from", "TERMINATION_GRACE_PERIOD_SECONDS"),
    ("/drain/drain_timeout_jitter", "50"),
    ("/gate/secret", "{sds: /etc/laststream/secret.yaml}"),
    ("/job", "{container: work, command: [/start], program_image: \"h/hook:1\"}"),
];

/// A policy by chance, and its placement.
fn by_chance(number: usize, random: &mut Rng) -> Value {
    let yaml = |text: &str| serde_saphyr::from_str::<Value>(text).unwrap();
    let placement = PLACEMENTS[number % PLACEMENTS.len()];
    let is_file = placement == "{envoy: {}}" || random.u8(..4) == 0;
    let module = if is_file { "/etc/laststream.wasm" } else { "oci://h/r:1" };
    let mut policy = json!({ "module": module, "placement": yaml(placement) });
    for _ in 0..random.usize(1..8) {
        let (path, value) = FIELDS[random.usize(..FIELDS.len())];
        let (section, field) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
        if field.is_empty() {
            policy[section] = yaml(value);
        } else {
            policy[section][field] = yaml(value);
        }
    }
    policy
}

fn folder(policy: &Value) -> Result<Vec<File>, Vec<PolicyProblem>> {
    let read = Policy::read(policy.to_string().as_bytes(), &Overrides::default());
    let policy = read.map_err(|PolicyError(problems)| problems)?;
    let rendered = render(Kind::All, &policy, &|_, _| Ok(DIGEST.into()));
    rendered.map(|rendered| rendered.files).map_err(|problem| vec![problem])
}

#[test]
fn rendered_policies_have_no_finding_and_messages_lead_to_them() {
    let mut random = Rng::with_seed(78);
    let mut refused = 0;
    for number in 0..POLICIES {
        let mut policy = by_chance(number, &mut random);
        let written = policy.to_string();
        let files = loop {
            let problems = match folder(&policy) {
                Ok(files) => break files,
                Err(problems) => problems,
            };
            refused += 1;
            assert!(refused < 2 * POLICIES, "{written}\n{policy}\n{problems:#?}");
            for problem in &problems {
                mend(&mut policy, problem);
            }
        };
        let source = |file: &File| SourceFile::new(file.name.clone(), file.text.clone().into());
        let findings = lint(files.iter().map(source).collect(), Assume::default()).unwrap();
        assert!(findings.is_empty(), "{policy}\n{}", described(&findings));
    }
}

/// Does what a message says; false if there is nothing to do.
fn mend(policy: &mut Value, problem: &PolicyProblem) -> bool {
    let says = |words: &str| problem.message.contains(words);
    let (path, value) = match problem.path.as_str() {
        "namespace" if says("is required") => ("/namespace", json!("shop")),
        "program_image" if says("is required") => ("/program_image", json!("h/hook:1")),
        "module" if says("name the file") => ("/module", json!("/etc/laststream.wasm")),
        "module" => ("/module", json!("oci://h/r:1")),
        "placement" | "placement.envoy" if says("placement: {sidecar: {}}") => {
            ("/placement", json!({ "sidecar": { "selector": { "app": "shop" } } }))
        }
        path if path.starts_with("forwarded_proto") && !says("write `10.0.0.0/16`") => {
            ("/forwarded_proto", Value::Null)
        }
        path => (path, said(&problem.message)),
    };
    let path = path.replace(['.', '['], "/").replace(']', "");
    let mut path = format!("/{}", path.trim_start_matches('/'));
    while !set(policy, &path, &value) {
        let Some((parent, _)) = path.rsplit_once('/').filter(|(parent, _)| !parent.is_empty())
        else {
            return false;
        };
        path = parent.to_owned();
    }
    true
}

/// The value that a message says to write; null if the field is to be taken out.
fn said(message: &str) -> Value {
    let written = message.rsplit_once("write `").map(|(_, rest)| rest);
    let written = written.or_else(|| Some(message.rsplit_once("write one of `")?.1));
    let word = written.and_then(|rest| rest.split('`').next()).unwrap_or_default();
    let is_field = word.contains(": ") || message.contains("take it out");
    if is_field { Value::Null } else { serde_saphyr::from_str(word).unwrap_or_default() }
}

/// Sets an existing field or item, or takes it out; false if there is none.
fn set(policy: &mut Value, path: &str, value: &Value) -> bool {
    let (parent, key) = path.rsplit_once('/').unwrap();
    match policy.pointer_mut(parent) {
        Some(Value::Object(fields)) if value.is_null() => fields.remove(key).is_some(),
        Some(Value::Object(fields)) if fields.contains_key(key) || parent.is_empty() => {
            fields.insert(key.to_owned(), value.clone());
            true
        }
        Some(Value::Array(items)) => match key.parse::<usize>() {
            Ok(index) if index < items.len() && value.is_null() => {
                items.remove(index);
                true
            }
            Ok(index) if index < items.len() => {
                items[index] = value.clone();
                true
            }
            _ => false,
        },
        _ => false,
    }
}
