//! Changes of examples that are worth a test, but no example of their own.

use crate::support::{Example, described, folder, of_rules};

/// An example with some texts in place of others.
fn changed(name: &str, changes: &[(&str, &str)]) -> Example {
    let Example { name, mut text } = Example::read(&folder(name));
    for (from, to) in changes {
        assert!(text.contains(from), "{name}: {from}");
        text = text.replace(from, to);
    }
    Example { name, text }
}

fn codes(example: &Example) -> Vec<String> {
    example.found().into_iter().map(|(_, code)| code).collect()
}

#[track_caller]
fn finds(name: &str, changes: &[(&str, &str)], expected: &[&str]) {
    let example = changed(name, changes);
    assert_eq!(codes(&example), expected, "{changes:?}\n{}", described(&example.findings()));
}

const VM_ID: &str = "envoyextensionpolicy/edge/laststream/wasm/0";
/// The Gateway that names the EnvoyProxy, and a policy of another one.
const OF_OTHERS: &str = "\n---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: edge}
spec:
  gatewayClassName: envoy
  infrastructure:
    parametersRef: {group: gateway.envoyproxy.io, kind: EnvoyProxy, name: laststream}
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyExtensionPolicy
metadata: {name: other, namespace: edge}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: other}]
  wasm:
  - name: laststream
    code: {type: HTTP, http: {url: https://example.com/plugin.wasm}}
    config: {scope: gateway}
";

/// No trusted hops: Envoy overwrites the header of every peer.
#[test]
fn zero_trusted_hops_trust_nobody() {
    let one = "gatewayTopology: {numTrustedProxies: 1}";
    let found = |hops: &str| {
        let Example { name, text } = changed("LS356.matchers.bad.yaml", &[(one, hops)]);
        let mesh = text.split("---\n").skip(3).take(2).collect::<Vec<_>>().join("---\n");
        codes(&Example { name, text: mesh })
    };
    assert_eq!(found(one), ["LS356"]);
    assert_eq!(found("gatewayTopology: {numTrustedProxies: 0}"), [""; 0]);
    // The field of Envoy Gateway's ClientTrafficPolicy.
    assert_eq!(found("xForwardedFor: {numTrustedHops: 0}"), [""; 0]);
}

#[test]
fn a_vm_id_is_compared_whole_and_with_the_policies_of_its_own_gateway() {
    let other = "envoyextensionpolicy/edge/other/wasm/0";
    let end = "    config: {scope: gateway}\n";
    let with_others = format!("{end}{}", OF_OTHERS.trim_start());
    let policies = (end, with_others.as_str());
    finds("LS403.envoy_gateway.good.yaml", &[policies], &[]);
    finds("LS403.envoy_gateway.good.yaml", &[(VM_ID, other), policies], &["LS403"]);
    let spaceless = (", namespace: edge", "");
    finds("LS403.envoy_gateway.good.yaml", &[spaceless], &[]);
    let longer = "envoyextensionpolicy/edge/xlaststream/wasm/0";
    finds("LS403.envoy_gateway.good.yaml", &[spaceless, (VM_ID, longer)], &["LS403"]);
}

#[test]
fn a_config_map_is_mounted_by_its_items_and_may_be_binary() {
    let items = |key: &str| {
        format!("configMap: {{name: bootstrap, items: [{{key: {key}, path: bootstrap.yaml}}]}}")
    };
    let whole = "configMap: {name: bootstrap}";
    let renamed = ("  bootstrap.yaml: |", "  other.yaml: |");
    finds("LS581.good.yaml", &[renamed], &["LS581"]);
    finds("LS581.good.yaml", &[renamed, (whole, &items("other.yaml"))], &[]);
    finds("LS581.good.yaml", &[(whole, &items("other.yaml"))], &["LS581"]);
    let elsewhere = items("bootstrap.yaml").replace("path: b", "path: c");
    finds("LS581.good.yaml", &[(whole, &elsewhere)], &["LS581"]);
    let binary = [(
        "\ndata:\n  bootstrap.yaml: |\n    static_resources: {listeners: []}",
        "\nbinaryData:\n  bootstrap.yaml: e30=",
    )];
    finds("LS581.good.yaml", &binary, &[]);
}

#[test]
fn another_kind_of_merge_knows_no_directives() {
    let merge = ("type: StrategicMerge", "type: JSONMerge");
    // The second EnvoyProxy's own hook is then the only one.
    let found = codes(&changed("LS592.good.yaml", &[merge]));
    assert!(found.contains(&"LS592".into()), "{found:?}");
    let hook = [merge, ("$patch: replace", "")];
    assert!(!codes(&changed("LS592.good.yaml", &hook)).contains(&"LS592".into()));
}

#[test]
fn matches_are_taken_by_their_type() {
    let matches = |items: &str| {
        format!("telemetry: {{metrics: {{matches: [{items}]}}}}\n  bootstrap:\n    type: Merge")
    };
    for (items, found) in [
        ("{type: Suffix, value: downstream_rq_active}, {type: Suffix, value: rq_total}", &[][..]),
        ("{type: Prefix, value: http.}", &[]),
        ("{type: RegularExpression, value: '.*downstream_rq.*'}", &[]),
        (
            "{type: Prefix, value: downstream_rq_active}, {type: Prefix, value: rq_total}",
            &["LS506"],
        ),
        ("{type: Exact, value: downstream_rq_active}, {value: downstream_rq_total}", &["LS506"]),
    ] {
        let changes = [("bootstrap:\n    type: Merge", matches(items))];
        let changes = changes.each_ref().map(|(from, to)| (*from, to.as_str()));
        finds("LS403.envoy_gateway.good.yaml", &changes, found);
    }
}

#[test]
fn a_waypoint_needs_a_counter_that_reaches_it() {
    let target = "    kind: Gateway\n    name: waypoint\n";
    let class = "    kind: GatewayClass\n    name: istio-waypoint\n";
    finds("LS403.waypoint.good.yaml", &[(target, class)], &[]);
    let service = "    kind: Service\n    name: waypoint\n";
    finds("LS403.waypoint.good.yaml", &[(target, service)], &["LS407"]);
    let plugin = "kind: WasmPlugin\nmetadata:\n  name: laststream\n  namespace: ";
    let [here, there] = ["shop", "other"].map(|namespace| format!("{plugin}{namespace}"));
    finds("LS403.waypoint.good.yaml", &[(&here, &there)], &["LS407"]);
}

/// Each part alone lacks something.
#[test]
fn parts_of_one_pod_are_judged_together() {
    let example = Example::read(&folder("LS506.good.yaml"));
    let parts = |grace: &str, suffixes: &str, spec: &str| {
        let head = "\n---\napiVersion: apps/v1\nkind: Deployment\n\
            metadata: {name: parts, namespace: istio-ingress}\n";
        let labels = "labels: {istio: ingressgateway}";
        let pod = format!(
            "{head}spec:\n  template:\n    metadata: {{{labels}}}\n    spec: {{\
                terminationGracePeriodSeconds: {grace}, containers: []}}\n"
        );
        let annotations = format!(
            "{{sidecar.istio.io/statsInclusionSuffixes: \"{suffixes}\", \
                proxy.istio.io/config: \"drainDuration: 100s\"}}"
        );
        let patch = format!(
            "{head}spec:\n  template:\n    metadata: {{{labels}, annotations: {annotations}}}\n\
             {spec}"
        );
        Example { name: example.name.clone(), text: format!("{}{pod}{patch}", example.text) }
    };
    let all = "downstream_rq_active,downstream_rq_total";
    for spec in ["    spec: {}\n", ""] {
        let good = parts("90", all, spec);
        assert!(codes(&good).is_empty(), "{}", described(&good.findings()));
        let has = |parts: Example, code: &str| codes(&parts).iter().any(|found| found == code);
        assert!(has(parts("90", "downstream_rq_active", spec), "LS506"), "{spec}");
        assert!(has(parts("10", all, spec), "LS551"), "{spec}");
    }
}

/// Istio takes the annotation in place of the mesh's list.
#[test]
fn an_annotation_hides_the_statistics_of_the_mesh() {
    let mesh = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio, namespace: istio-system}\n\
        data:\n  mesh: |-\n    defaultConfig:\n      proxyStatsMatcher:\n        \
        inclusionSuffixes: [downstream_rq_active, downstream_rq_total]\n---\n";
    let example = changed("LS506.bad.yaml", &[]);
    let text = format!("{mesh}{}", example.text);
    let found = Example { name: example.name.clone(), text }.found();
    assert_eq!((example.found().len(), found.len()), (3, 2), "{found:?}");
}

/// Istio asks kubelet for 1.33 before it makes native sidecars by itself.
#[test]
fn native_sidecars_are_the_default_where_istio_makes_them() {
    for (versions, is_found) in [
        ("# istio: 1.29\n", true),
        ("# istio: 1.29\n# kubernetes: 1.33\n", true),
        ("# istio: 1.29\n# kubernetes: 1.32\n", false),
        ("# istio: 1.26\n# kubernetes: 1.33\n", false),
    ] {
        let own = "        sidecar.istio.io/nativeSidecar: \"true\"\n";
        let example = changed("LS555.bad.yaml", &[(own, "")]);
        let text = format!("{versions}{}", example.text);
        let found = codes(&Example { name: example.name, text });
        assert_eq!(found.contains(&"LS555".into()), is_found, "{versions} {found:?}");
    }
}

#[test]
fn overlays_of_one_gateway_are_judged_together() {
    let grace = "          terminationGracePeriodSeconds: 65 # finding: LS551\n";
    let other = |labels: &str, seconds: u32| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: defaults\n  \
             namespace: istio-system\n  labels: {{{labels}}}\ndata:\n  \
             deployment: |-\n    spec:\n      \
             template:\n        spec:\n          terminationGracePeriodSeconds: {seconds}\n---\n"
        )
    };
    let plugin = "apiVersion: extensions.istio.io/v1alpha1\nkind: WasmPlugin";
    let count = |labels: &str, seconds: u32| {
        let with_other = format!("{}{plugin}", other(labels, seconds));
        let example = changed("LS551.bad.yaml", &[(grace, ""), (plugin, &with_other)]);
        codes(&example).iter().filter(|code| *code == "LS551").count()
    };
    let class = "gateway.istio.io/defaults-for-class: istio-waypoint";
    assert_eq!(count(class, 90), 1, "only the Deployment's");
    assert!(count(class, 20) > 1);
}

#[test]
fn two_counters_in_one_chain_are_found_unless_their_listeners_differ() {
    let port = "          portNumber: 8443\n";
    finds("LS121.good.yaml", &[(port, "")], &["LS305"]);
    finds("LS121.good.yaml", &[(port, &port.replace("8443", "8080"))], &["LS305"]);
    let other = "name: third\n  namespace: istio-ingress\nspec:\n  workloadSelector:\n    labels: ";
    let elsewhere = format!("{other}{{istio: other}}");
    let here = format!("{other}{{istio: ingressgateway}}");
    finds("LS121.good.yaml", &[(port, ""), (&here, &elsewhere)], &[]);
    finds("LS121.good.yaml", &[(port, ""), ("laststream-b", "laststream-count")], &["LS121"]);
    let chains = |name: &str| format!("          filterChain:\n            sni: {name}\n");
    let first = "          portNumber: 8080\n          filterChain:\n";
    let third = "          portNumber: 8443\n          filterChain:\n";
    finds("LS121.good.yaml", &[(third, &chains("b"))], &["LS305"]);
    finds("LS121.good.yaml", &[(first, &chains("b")), (third, &chains("b"))], &["LS305"]);
    finds("LS121.good.yaml", &[(first, &chains("a")), (third, &chains("b"))], &[]);
}

#[test]
fn a_sidecar_must_overwrite_the_header_with_http() {
    const OVERWRITES: &str = "append:
                        header: {key: x-forwarded-proto, value: http}
                        append_action: OVERWRITE_IF_EXISTS_OR_ADD";
    let removes = (OVERWRITES, "remove: x-forwarded-proto");
    for name in ["LS356.good.yaml", "LS351.good.yaml"] {
        finds(name, &[removes], &["LS356"]);
    }
    finds("LS356.good.yaml", &[removes, ("FAIL_OPEN", "FAIL_CLOSED")], &[]);
    let appends = "remove: x-forwarded-proto
                    - append:
                        header: {key: x-forwarded-proto, value: http}";
    finds("LS356.good.yaml", &[(OVERWRITES, appends)], &[]);
    for other in
        [("value: http}", "value: https}"), ("OVERWRITE_IF_EXISTS_OR_ADD", "ADD_IF_ABSENT")]
    {
        finds("LS356.good.yaml", &[other], &["LS356"]);
    }
}

#[test]
fn a_mutation_saves_the_header_only_while_it_is_there() {
    const FIRST: &str = "- remove: x-laststream-forwarded-proto\n";
    const VALUE: &str = "\"%REQ(x-forwarded-proto)%\"";
    for earlier in [
        "- remove: X-Forwarded-Proto\n",
        "- append: {header: {key: x-forwarded-proto, value: http}}\n",
    ] {
        let mutations = format!("{FIRST}                    {earlier}");
        finds("LS351.mesh.good.yaml", &[(FIRST, &mutations)], &["LS351"]);
    }
    for (value, expected) in [
        ("\"%REQ(x-forwarded-protocol)%\"", &["LS351"][..]),
        ("https", &["LS351"]),
        ("\"%REQ(X-Forwarded-Proto)%\"", &[]),
        ("\"%REQUEST_HEADER(x-forwarded-proto)%\"", &[]),
        ("\"%REQ(x-forwarded-proto?x-scheme):16%\"", &[]),
        ("\"%REQ(x-forwarded-proto)%%REQ(x-scheme)%\"", &["LS351"]),
    ] {
        finds("LS351.mesh.good.yaml", &[(VALUE, value)], expected);
    }
}

#[test]
fn a_source_may_have_the_name_of_the_saved_header() {
    let source =
        (r#""presets": ["aws_alb"]"#, r#""sources": [{"header": "X-Laststream-Forwarded-Proto"}]"#);
    let other = ("header: {key: x-laststream-forwarded-proto,", "header: {key: x-other,");
    finds("LS351.mesh.good.yaml", &[source], &[]);
    finds("LS351.mesh.good.yaml", &[source, other], &["LS351"]);
}

#[test]
fn the_filter_state_beside_a_plugin_has_its_key() {
    let written = ("- object_key: laststream.direct_peer", "- object_key: other");
    finds("LS353.good.yaml", &[written], &["LS353", "LS353", "LS353"]);
    let peers = "      trust:\n        peers:";
    let wanted = (peers, "      trust:\n        peer_key: other\n        peers:");
    finds("LS353.good.yaml", &[wanted], &["LS353"]);
}

/// The last document of the bad example is a WasmPlugin.
#[test]
fn a_plugin_restores_twice_on_all_ports_of_one_scope() {
    let filters = ["LS355", "LS305", "LS355"];
    let and = |code| [filters.as_slice(), &[code]].concat();
    let ports = "match: [{ports: [{number: 8443}]}]\n  pluginConfig:";
    finds("LS355.bad.yaml", &[("pluginConfig:", ports)], &filters);
    finds("LS355.bad.yaml", &[("scope: gateway", "scope: inbound")], &and("LS356"));
    let elsewhere = ("{matchLabels: {istio: egressgateway}}", "{matchLabels: {istio: other}}");
    finds("LS355.bad.yaml", &[elsewhere], &and("LS353"));
}

/// A control plane of one revision does not read the resources of another one.
#[test]
fn resources_of_two_revisions_do_not_meet() {
    let Example { name, text } = Example::read(&folder("LS355.good.yaml"));
    let both = |revisions: [&str; 2]| {
        let text = revisions.map(|revision| {
            let metadata = format!("name: of-{revision}\n  labels: {{istio.io/rev: {revision}}}\n");
            text.replacen("name: laststream\n", &metadata, 1)
        });
        codes(&Example { name: name.clone(), text: text.join("---\n") })
    };
    assert!(both(["a", "b"]).is_empty());
    let text = text.replace("name: laststream\n", "name: other\n") + "---\n" + &text;
    assert!(!codes(&Example { name: name.clone(), text }).is_empty());
}

#[test]
fn matchers_of_two_policies_are_found_where_they_share_a_chain() {
    let Example { name, text } = Example::read(&folder("LS355.good.yaml"));
    let second = |namespace: &str| {
        let other = text
            .replace("name: laststream\n", "name: other\n")
            .replace("namespace: istio-ingress", &format!("namespace: {namespace}"))
            .replace("laststream-count", "other-count")
            .replace("laststream-scheme", "other-scheme");
        codes(&Example { name: name.clone(), text: format!("{text}---\n{other}") })
    };
    assert_eq!(second("istio-system"), ["LS305", "LS355"]);
    assert!(second("istio-egress").is_empty());
}

/// Istio's newer kind has the same fields below `wasm`.
#[test]
fn a_traffic_extension_is_judged_like_a_wasm_plugin() {
    let mut compared = 0;
    for example in of_rules() {
        let is_of_schema =
            ["LS006", "LS007", "LS008"].iter().any(|code| example.name.contains(code));
        if is_of_schema || !example.text.contains("kind: WasmPlugin") {
            continue;
        }
        let documents: Vec<_> = example.text.split("---\n").map(as_traffic_extension).collect();
        let newer = Example { name: example.name.clone(), text: documents.join("---\n") };
        assert_eq!(sorted(codes(&newer)), sorted(codes(&example)), "{}", newer.text);
        compared += 1;
    }
    assert!(compared > 15, "{compared} examples");
}

fn sorted(mut codes: Vec<String>) -> Vec<String> {
    codes.sort();
    codes
}

/// Moves the fields of a WasmPlugin below `wasm`, except those of Istio's own.
fn as_traffic_extension(document: &str) -> String {
    let Some((head, spec)) = document.split_once("\nspec:\n") else { return document.into() };
    if !head.contains("kind: WasmPlugin") {
        return document.into();
    }
    let (mut own, mut wasm, mut is_own) = (String::new(), String::new(), false);
    for line in spec.lines() {
        if !line.starts_with("   ") && !line.starts_with("  -") {
            is_own = ["selector", "targetRefs", "phase", "priority", "match"]
                .iter()
                .any(|key| line.trim_start().starts_with(key));
        }
        let into = if is_own { &mut own } else { &mut wasm };
        into.push_str(&format!("{}{line}\n", if is_own { "" } else { "  " }));
    }
    let head = head.replace("kind: WasmPlugin", "kind: TrafficExtension");
    format!("{head}\nspec:\n{own}  wasm:\n{wasm}")
}
