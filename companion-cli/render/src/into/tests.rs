//! Merging into bootstraps in several forms.

use serde_json::Value;

use super::{IntoError, Merged, merge};
use crate::tests::policy;

const POLICY: &str = "module: /etc/envoy/laststream.wasm\nplacement: {envoy: {}}\n";

const OWN: &str = include_str!("own.yaml");

fn merged(policy_text: &str, text: &str) -> Merged {
    merge(&policy(policy_text), "envoy.yaml", text)
        .unwrap_or_else(|error| panic!("{error:?}\n{text}"))
}

fn json(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn names<'v>(value: &'v Value, list: &str) -> Vec<&'v str> {
    let items = value.pointer(list).and_then(Value::as_array).expect(list);
    items.iter().filter_map(|item| item["name"].as_str()).collect()
}

const FILTERS: &str =
    "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters";

#[test]
fn all_parts_are_added_and_every_line_stays() {
    let Merged { text, diff } = merged(POLICY, OWN);
    let value = json(&text);
    assert_eq!(names(&value, FILTERS), ["laststream", "envoy.filters.http.router"]);
    assert_eq!(names(&value, "/static_resources/listeners"), ["web", "gate"]);
    assert_eq!(names(&value, "/static_resources/clusters"), ["app", "admin"]);
    let admin = &value["static_resources"]["clusters"][1]["load_assignment"];
    let admin = admin.pointer("/endpoints/0/lb_endpoints/0/endpoint/address/socket_address");
    let own = serde_json::json!({ "address": "127.0.0.1", "port_value": 9000 });
    assert_eq!(admin, Some(&own));
    let mut lines = text.lines();
    assert!(OWN.lines().all(|own| lines.any(|line| line == own)), "{text}");
    let removed = diff.lines().skip(2).filter(|line| line.starts_with('-'));
    assert_eq!(removed.count(), 0, "{diff}");
}

#[test]
fn a_second_merge_changes_nothing_and_another_policy_replaces_the_parts() {
    let first = merged(POLICY, OWN).text;
    assert_eq!(merged(POLICY, &first), Merged { text: first.clone(), diff: String::new() });
    let more = format!("{POLICY}streams: {{show: path}}\ndrain: {{longest_request: 60s}}\n");
    let second = merged(&more, &first).text;
    assert_eq!(second, merged(&more, OWN).text, "as if it was the first");
    assert_eq!(merged(POLICY, &second).text, first, "and back");
}

#[test]
fn brackets_braces_and_a_bootstrap_without_clusters_and_admin() {
    let json_text = json(OWN).to_string();
    let value = json(&merged(POLICY, &json_text).text);
    assert_eq!(value, json(&merged(POLICY, &value.to_string()).text), "idempotent");
    let expected = json(&merged(POLICY, OWN).text);
    let web = |value: &Value, index: usize| value["static_resources"]["listeners"][index].clone();
    assert_eq!(web(&value, 1), web(&expected, 0), "the gate is in front here");

    let bare = OWN.split("  # The apps.").next().expect("the listeners");
    let text = merged(POLICY, bare.trim_end()).text;
    let value = json(&text);
    assert_eq!(names(&value, "/static_resources/listeners"), ["web", "gate"]);
    assert_eq!(names(&value, "/static_resources/clusters"), ["admin"]);
    let port = value.pointer("/admin/address/socket_address/port_value");
    assert_eq!(port, Some(&9901.into()), "{text}");
}

#[test]
fn connections_of_the_named_listeners_are_counted() {
    let listener = "  listeners:\n  - name: db\n    \
                    address: {socket_address: {address: 0.0.0.0, port_value: 5432}}\n    \
                    filter_chains:\n    - filters:\n      \
                    - name: envoy.filters.network.tcp_proxy\n";
    let own = OWN.replacen("  listeners:\n", listener, 1);
    let filters = "/static_resources/listeners/0/filter_chains/0/filters";
    let proxy = "envoy.filters.network.tcp_proxy";
    for tcp in ["5432", "db"] {
        let policy = format!("{POLICY}count: {{tcp: [{tcp}]}}\n");
        let text = merged(&policy, &own).text;
        let limit = "envoy.filters.network.connection_limit";
        assert_eq!(names(&json(&text), filters), [limit, proxy]);
        assert_eq!(merged(&policy, &text).text, text, "a second merge changes nothing");
        assert_eq!(names(&json(&merged(POLICY, &text).text), filters), [proxy], "and back");
    }
    let unknown = policy(&format!("{POLICY}count: {{tcp: [6379]}}\n"));
    let refused = format!("{:?}", merge(&unknown, "envoy.yaml", &own));
    assert!(refused.contains("has no listener on port 6379"), "{refused}");
}

#[test]
fn a_gate_that_the_policy_does_not_want_any_more_is_taken_out() {
    let with_gate = merged(POLICY, OWN).text;
    let text = merged(&format!("{POLICY}gate: {{enabled: false}}\n"), &with_gate).text;
    assert_eq!(names(&json(&text), "/static_resources/listeners"), ["web"], "{text}");
}

#[test]
fn every_connection_manager_and_every_chain_of_an_upgrade_gets_the_filter_once() {
    let start = OWN.find("    - filters:").expect("a chain");
    let end = OWN.find("  # The apps.").expect("the end");
    let chain = OWN[start..end].replacen("http_filters: #", "http_filters: &filters #", 1);
    let upgrades = "          upgrade_configs:\n          - upgrade_type: websocket\n            \
        filters:\n            - name: envoy.filters.http.router\n";
    let second = OWN[start..end].replacen("          # The only one.\n", "", 1);
    let (head, _) = second.split_once("          http_filters").expect("filters");
    let (_, tail) = second.split_once("          route_config").expect("routes");
    let alias = format!("{head}          http_filters: *filters\n          route_config{tail}");
    let text = format!("{}{chain}{upgrades}{alias}{}", &OWN[..start], &OWN[end..]);
    let merged = merged(POLICY, &text).text;
    assert_eq!(merged.matches("- name: laststream\n").count(), 2, "{merged}");
}

#[test]
fn what_cannot_be_merged_is_refused_with_the_way_out() {
    let with = |from: &str, to: &str| {
        assert!(OWN.contains(from), "{from}");
        OWN.replace(from, to)
    };
    for (more, text, words) in [
        ("", with("name: web", "name: gate"), ["line 5", "rename it"]),
        ("", with("10000", "16091"), ["line 5", "gate: {port: 16092}"]),
        ("gate: {port: 9000}", OWN.into(), ["`admin`", "gate: {port: 16092}"]),
        (
            "",
            with("name: envoy.filters.http.router", "name: laststream-gate"),
            ["`web` has the gate's filter", "take it out"],
        ),
        ("", with("name: app\n", "name: admin\n"), ["`admin` does not lead", "0.0.1:9000"]),
        ("", with("9000", "0"), ["`admin` has no IP address", "port_value: 9901"]),
        ("", with("HttpConnectionManager", "Other"), ["no HTTP connection manager", "to count"]),
        ("", with("http_filters", "other_filters"), ["line 11", "no `http_filters`"]),
        ("", with("static_resources", "other_resources"), ["no bootstrap", "static_resources"]),
        ("", format!("{OWN}---\na: b\n"), ["2 documents", "with one"]),
        ("", "# nothing\n".into(), ["is empty", "render envoy"]),
        ("", "a: [".into(), ["line", "cannot be read"]),
        ("", with("  - name: app\n", "  -\n    name: app\n"), ["safely", "copy the parts"]),
        ("forwarded_for: xff", OWN.into(), ["forwarded_for", "copy these parts"]),
    ] {
        let trust = if more.contains("forwarded_for") {
            "\nforwarded_proto: {presets: [gcp], trust: {peers: [10.0.0.0/16]}}"
        } else {
            ""
        };
        let policy = policy(&format!("{POLICY}{more}{trust}\n"));
        let error = match merge(&policy, "envoy.yaml", &text).expect_err(&text) {
            IntoError::Policy(problem) => problem.to_string(),
            IntoError::File(error) => error.to_string(),
        };
        let words = words.map(|word| word.replace("forwarded_for", "forwarded_"));
        assert!(words.iter().all(|word| error.contains(word)), "{error}\n{words:?}");
    }
}
