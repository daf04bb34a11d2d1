//! Which policies are accepted, and the errors of all others.

use std::collections::BTreeMap;

use super::file::{Engine, FailurePolicy, Placement};
use super::{Overrides, PeerInfo, Policy};

mod clients;
mod damaged;
mod end;
mod gate;

const SHORT: &str = "\
module: oci://ghcr.io/example/laststream:0.1.0
forwarded_proto:
  presets: [aws_alb]
  trust:
    peers: [10.0.0.0/16]
";

fn read(text: &str) -> Result<Policy, String> {
    Policy::read(text.as_bytes(), &Overrides::default()).map_err(|refused| refused.to_string())
}

#[test]
fn five_lines_are_enough_for_a_gateway() {
    let policy = read(SHORT).expect("a policy");
    assert_eq!(
        (policy.name.as_str(), policy.namespace.as_deref()),
        ("laststream", Some("istio-system"))
    );
    let Placement::Gateway(gateway) = &policy.placement else { panic!("{:?}", policy.placement) };
    assert_eq!(gateway.selector, BTreeMap::from([("istio".into(), "ingressgateway".into())]));
    assert_eq!(policy.failure_policy, FailurePolicy::Open);
    assert_eq!(policy.gate_port, Some(15091));
    let proto = policy.forwarded_proto.expect("forwarded_proto");
    assert_eq!(proto.saved_in.as_deref(), Some("x-laststream-forwarded-proto"));
    let headers =
        ["x-forwarded-proto", "x-laststream-forwarded-proto", "x-forwarded-port"].map(String::from);
    assert_eq!(
        proto.peer_info,
        Some(PeerInfo {
            key: "laststream.direct_peer".into(),
            addresses: false,
            headers: Some(headers)
        })
    );
}

#[test]
fn only_what_the_module_looks_at_is_saved_and_told() {
    const SAVED: &str = "x-laststream-forwarded-proto";
    const ALL: [&str; 3] = ["x-forwarded-proto", SAVED, "x-forwarded-port"];
    const PORT: [&str; 3] = ["x-forwarded-proto", "", "x-forwarded-port"];
    for (proto, saved, peer_headers) in [
        ("presets: [gcp]", Some(SAVED), Some(ALL)),
        ("sources: [{header: x-forwarded-port}]", None, Some(PORT)),
        ("presets: [gcp], original_header: X-Forwarded-Proto", Some(SAVED), Some(ALL)),
        ("presets: [gcp], write_port: true", Some(SAVED), Some(ALL)),
        ("presets: [gcp], write_scheme: true", Some(SAVED), None),
        ("presets: [gcp], strip: {twins: true}", Some(SAVED), None),
        ("presets: [gcp], strip: {untrusted: true}", Some(SAVED), None),
        ("presets: [cloudflare]", Some(SAVED), None),
        ("presets: [cloudfront]", None, None),
        ("sources: [{header: x-edge}]", None, None),
        ("sources: [{header: x-forwarded-proto, form: forwarded}]", Some(SAVED), None),
    ] {
        let policy = read(&format!("forwarded_proto: {{{proto}, trust: {{peers: [10.0.0.0/8]}}}}"))
            .expect(proto);
        let found = policy.forwarded_proto.expect(proto);
        assert_eq!(found.saved_in.as_deref(), saved, "{proto}");
        assert_eq!(
            found.peer_info.expect(proto).headers,
            peer_headers.map(|headers| headers.map(String::from)),
            "{proto}"
        );
    }
}

/// Where `x-forwarded-proto` itself is read, it would be what is left when the module fails.
#[test]
fn what_the_peer_sent_is_always_saved_and_removed() {
    for (proto, forgets) in [
        ("original_header: X-Forwarded-Proto", true),
        ("fallback: http, silent: connection", true),
        ("fallback: keep", false),
        ("silent: keep", false),
    ] {
        let policy = read(&format!(
            "forwarded_proto: {{presets: [gcp], trust: {{peers: [10.0.0.0/16]}}, {proto}}}"
        ))
        .expect(proto);
        let found = policy.forwarded_proto.expect(proto);
        assert_eq!(found.forgets, forgets, "{proto}");
        assert_eq!(found.json.get("original_header"), None, "{proto}");
    }
    for field in ["fallback", "silent"] {
        let both = format!(
            "forwarded_proto: {{presets: [gcp], trust: {{peers: [10.0.0.0/16]}}, original_header: \
                x-forwarded-proto, {field}: keep}}"
        );
        let message = read(&both).map(|_| ()).expect_err("`keep` beside the header itself");
        assert!(message.contains(&format!("forwarded_proto.{field}")), "{message}");
    }
}

#[test]
fn wide_trust_and_the_root_namespace_are_worth_a_word() {
    let trust =
        |range: &str| format!("forwarded_proto: {{presets: [gcp], trust: {{peers: [{range}]}}}}\n");
    for (text, words) in [
        (trust("10.0.0.0/16"), &["istio-system", "write the gateway's own"][..]),
        (
            trust("10.0.0.0/8") + "namespace: edge",
            &["10.0.0.0/8", "externalTrafficPolicy: Cluster"],
        ),
        (trust("10.0.0.0/16") + "namespace: edge", &[]),
        (trust("10.0.0.0/16") + "namespace: istio-system", &[]),
        (trust("10.0.0.0/16") + "namespace: edge\nplacement: {gateway_api: {gateway: edge}}", &[]),
    ] {
        let message = read(&text).expect(&text).warnings.join("\n");
        assert!(
            words.iter().all(|word| message.contains(word))
                && message.is_empty() == words.is_empty(),
            "{text}\n{message}"
        );
    }
    let nowhere = read("placement: {gateway_api: {gateway: edge}}")
        .map(|_| ())
        .expect_err("a Gateway without its namespace");
    assert!(nowhere.contains("namespace: is required"), "{nowhere}");
}

#[test]
fn a_gateway_of_the_gateway_api_is_named_or_is_of_a_class() {
    for (api, words) in [
        ("gateway: edge, class: istio", "keep one"),
        ("autoscaler: {minReplicas: 2}", "write one"),
        ("gateway: Edge", "gateway_api.gateway"),
        ("class: istio-waypoint", "{waypoint: {class: istio-waypoint}}"),
        ("gateway: edge, disruption_budget: 1", "disruption_budget: is not a map"),
        ("gateway: edge, autoscaler: {minReplicas: 5}", "autoscaler: needs `maxReplicas`"),
        ("gateway: edge, autoscaler: {minReplicas: 5, maxReplicas: 2}", "autoscaler: needs"),
        ("gateway: edge, disruption_budget: {}", "disruption_budget: needs either"),
    ] {
        let refused = read(&format!("namespace: a\nplacement: {{gateway_api: {{{api}}}}}"));
        let message = refused.map(|_| ()).expect_err(api);
        assert!(message.contains(words), "{message}");
    }
    let old = read("namespace: a\nplacement: {gateway: {name: edge}}").map(|_| ());
    let message = old.expect_err("the placement of former versions");
    assert!(message.contains("{gateway_api: {gateway: edge}}"), "{message}");
    let class = read("placement: {gateway_api: {class: istio}}").expect("a class");
    assert_eq!(class.namespace.as_deref(), Some("istio-system"), "istiod's own namespace");
}

#[test]
fn nothing_is_a_policy_without_wishes() {
    for text in ["", "# nothing\n", "---\n", "{}"] {
        assert_eq!(read(text).expect(text).sizing.grace_period.to_string(), "30s");
    }
}

#[test]
fn what_would_do_nothing_is_refused() {
    const GATEWAY: &str = "namespace: a\nplacement: {envoy_gateway: {gateway: g}}\n";
    const API: &str = "namespace: a\nplacement: {gateway_api: {gateway: g}}\n";
    const ENVOY: &str = "placement: {envoy: {listen: '127.0.0.1:15091'}}\n";
    for (place, more, words) in [
        (GATEWAY, "drain: {longest_request: 300s}", "drain.longest_request: is the gate's"),
        (GATEWAY, "drain: {grace_period: 300s}", "drain.grace_period: is the gate's"),
        ("", "gate: {enabled: false}\ndrain: {quiet: 1s}", "drain.quiet: is the gate's"),
        (GATEWAY, "failure_policy: reload", "failure_policy: `reload` is unknown"),
        (
            GATEWAY,
            "forwarded_proto: {sources: [{header: a}], trust: {identities: [{exact: b}]}}",
            "forwarded_proto.trust.identities: do not work",
        ),
        (API, "gate: {secret: {sds: /a.yaml}}", "gate.secret.sds: needs a file"),
        (ENVOY, "", "gate.port: 15091 is one of the policy's own"),
        (ENVOY, "gate: {notify: {cluster: b, path: /}}", "the app's cluster is `app`"),
        (
            "",
            "module: oci://h/r:t\ndelivery: image_volume\n\
                job: {container: a, command: [b], program_image: c}",
            "delivery: `image_volume` is not written",
        ),
    ] {
        let message = read(&format!("{place}{more}")).map(|_| ()).expect_err(more);
        assert!(message.contains(words), "{more}: {message}");
    }
    read(&format!("{GATEWAY}retries: {{host: a}}\ndrain: {{longest_request: 9s}}"))
        .expect("time of a try");
}

#[test]
fn a_sidecar_is_warned_of_connections_of_the_mesh() {
    let sidecar = |fallback: &str| {
        let policy = read(&format!(
            "namespace: a\nplacement: {{sidecar: {{}}}}\nforwarded_proto: {{presets: [gcp], \
                trust: {{peers: [10.0.0.0/16]}}{fallback}}}"
        ));
        policy.expect("a policy").warnings.join("\n")
    };
    assert!(sidecar("").contains("forwarded_proto.fallback"));
    assert!(!sidecar(", fallback: http").contains("forwarded_proto.fallback"));
}

#[test]
fn errors_name_the_place_and_the_way_out() {
    let envoy_gateway =
        |more: &str| format!("namespace: a\nplacement: {{envoy_gateway: {{gateway: b}}}}\n{more}");
    let gated = |gate: &str| {
        format!("module: oci://h/r:t\ndelivery: image_volume\nprogram_image: a\ngate: {{{gate}}}")
    };
    let sidecar = |more: &str| format!("namespace: a\nplacement:\n  sidecar: {{}}\n{more}");
    for (text, words) in [
        ("nam: x".into(), &["line 1, column 1", "nam", "namespace"][..]),
        ("gate:\n  ports: 1".into(), &["line 2, column 3", "ports", "port"]),
        ("gate: {port: 70000}".into(), &["line 1, column 14"]),
        ("gate: {port: 15020}".into(), &["line 1, column 14", "gate.port", "Istio's own", "15091"]),
        (
            "gate: {secret: open-sesame-0123456789}".into(),
            &["line 1, column 16", "environment", "sds"],
        ),
        (
            "gate: {secret: {environment: 'A B'}}".into(),
            &["line 1, column 30", "gate.secret.environment", "`LASTSTREAM_SECRET`"],
        ),
        (
            "gate: {secret: {environment: ISTIO_META_SECRET}}".into(),
            &["gate.secret.environment", "metadata"],
        ),
        ("gate: {secret: {sds: sds.yaml}}".into(), &["gate.secret.sds", "absolute path"]),
        (
            "gate: {enabled: false, secret: {environment: A}, hosts: [a]}".into(),
            &["gate.secret: is the gate's", "gate.hosts: is"],
        ),
        ("gate: {hosts: ['http://gate']}".into(), &["gate.hosts[0]", "not a host name"]),
        ("drain: {quiet: 1_000}".into(), &["line 1, column 9", "1_000", "`60s`"]),
        ("drain: {quiet: 10}".into(), &["line 1", "`60s`"]),
        ("drain: {quiet: 10ms}".into(), &["drain.quiet", "200"]),
        (
            "drain:\n  longest_request: 60s\n  grace_period: 30s".into(),
            &["line 3, column 17", "drain.grace_period", "`70s`"],
        ),
        ("name: On".into(), &["name: `On`"]),
        ("labels: {a b: c}".into(), &["labels.a b", "not the name of a label"]),
        (
            "count: {exclude: {paths: [{exact: a}]}}".into(),
            &["line 1, column 27", "count.exclude.paths[0]", "begins with `/`"],
        ),
        ("count: {exclude: {health_checks: 1.5}}".into(), &["count: 1.5 is no whole number"]),
        (
            "count:\n  exclude:\n    health_check: true".into(),
            &["count.exclude.health_check", "did you mean `health_checks`"],
        ),
        (
            "forwarded_proto:\n  presets: [gcp]\n  trust: {peers: [10.0.0.1/8]}".into(),
            &["line 3, column 19", "write `10.0.0.0/8`"],
        ),
        ("placement: {sidecar: {}}".into(), &["namespace: is required"]),
        (sidecar("drain: {finish: drain}"), &["line 4", "drain_agent"]),
        ("namespace: a\nplacement: {sidecar: {directions: [inbound, inbound]}}".into(), &["twice"]),
        (
            "namespace: a\nplacement: {sidecar: {directions: [outbound]}}\nforwarded_proto: {}"
                .into(),
            &["add `inbound`"],
        ),
        (
            "namespace: a\nplacement: {waypoint: {gateway: w}}\ngate: {port: 1}".into(),
            &["gate: a waypoint's gate", "`delivery: image_volume`"],
        ),
        (
            "placement: {envoy: {listen: localhost}}".into(),
            &["placement.envoy.listen", "127.0.0.1:8080"],
        ),
        (
            "placement: {envoy: {}}\ndrain: {finish: drain_agent}".into(),
            &["drain.finish", "`quit`"],
        ),
        (
            "gate: {enabled: false}\ndrain: {finish: quit, long_lived: wait}".into(),
            &["line 2, column 17", "drain.finish", "drain.long_lived", "there is none"],
        ),
        (
            "drain:\n  begin: nothing\n  delay: 2s".into(),
            &["line 3, column 10", "drain.delay", "nothing comes after it"],
        ),
        (
            "placement: {envoy: {}}\ndrain: {exit_on_zero: true}".into(),
            &["drain.exit_on_zero", "Istio"],
        ),
        (
            "module: /a.wasm\ndelivery: image_volume".into(),
            &["line 2, column 11", "`/a.wasm`", "oci://"],
        ),
        ("program_image: a".into(), &["line 1", "program_image: is for proxies without"]),
        (envoy_gateway("gate: {port: 1}"), &["line 3", "gate: needs", "`delivery: image_volume`"]),
        (envoy_gateway("program_image: a"), &["line 3", "no gate without `delivery"]),
        (
            envoy_gateway("module: oci://h/r:t\ndelivery: image_volume"),
            &["program_image: is required"],
        ),
        (
            envoy_gateway("module: oci://h/r:t\ndelivery: image_volume\ngate: {enabled: false}"),
            &["line 4", "delivery: is the gate's here"],
        ),
        (envoy_gateway(&gated("port: 19001")), &["gate.port", "Envoy Gateway's own"]),
        (
            envoy_gateway(&gated("secret: {environment: OTHER}")),
            &["gate.secret.environment", "`LASTSTREAM_SECRET`"],
        ),
        (
            envoy_gateway(&gated("secret: {sds: /a.yaml}")),
            &["gate.secret.sds", "`environment: LASTSTREAM_SECRET`"],
        ),
        ("retries: {host: 'a b'}".into(), &["retries.host"]),
        ("job: {container: a}".into(), &["line 1"]),
        (
            "job: {name: A, container: a/b, command: [], program_image: 'a b', program: \
                laststream}"
                .into(),
            &["job.name", "job.container", "job.command", "job.program_image", "job.program:"],
        ),
        ("a: b\n---\nc: d".into(), &["line"]),
        ("[1]".into(), &["line 1"]),
        ("name: x\nname: y".into(), &["line 2", "duplicate"]),
        ("name: [".into(), &["line"]),
        ("a: &a [*a]".into(), &["line 1"]),
    ] {
        let message = read(&text).map(|_| ()).expect_err(&text);
        for word in words {
            assert!(message.contains(word), "{text}\nsaid: {message}\nlacks: {word}");
        }
        assert!(!message.contains('\n'), "one line: {message}");
    }
    assert!(
        Policy::read(b"\xff", &Overrides::default())
            .expect_err("bytes")
            .to_string()
            .contains("UTF-8")
    );
    assert!(
        Policy::read(&vec![b' '; 2 << 20], &Overrides::default())
            .expect_err("long")
            .to_string()
            .contains("bytes")
    );
}

#[test]
fn the_command_line_comes_first() {
    let overrides = Overrides {
        module: Some("/a.wasm".into()),
        name: Some("b".into()),
        namespace: Some("c".into()),
        digest: None,
        engine: Some(Engine::Wasm),
    };
    let text =
        format!("digest: sha256:{}\nname: x\nmodule: oci://h/r:t\nengine: native", "0".repeat(64));
    let policy = Policy::read(text.as_bytes(), &overrides).expect("a policy");
    assert_eq!(
        (policy.name.as_str(), policy.namespace.as_deref(), policy.engine),
        ("b", Some("c"), Engine::Wasm)
    );
    assert_eq!(policy.source(&|_| Err("unasked".into())).expect("a file").url(), "/a.wasm");
    let mounted = b"module: oci://h/r:t\ndelivery: image_volume";
    let policy = Policy::read(mounted, &overrides).expect("a file is not mounted");
    assert_eq!(policy.source(&|_| Err("unasked".into())).expect("a file").url(), "/a.wasm");
}

#[test]
fn the_schema_knows_the_modules_fields() {
    let schema = Policy::schema();
    assert!(
        schema.pointer("/properties/forwarded_proto/properties/trust/properties/peers").is_some(),
        "{schema:#}"
    );
    assert!(schema.pointer("/properties/drain/properties/longest_request").is_some(), "{schema:#}");
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn everything_at_once_is_a_policy() {
    let policy = read(include_str!("tests/everything.yaml")).expect("a policy");
    assert!(policy.retries.is_some() && policy.app.is_some() && policy.exit_on_zero);
}
