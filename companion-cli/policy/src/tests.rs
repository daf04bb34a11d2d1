//! Accepted policies, and the errors of all others.

use serde_json::Value;

use super::file::Engine;
use super::{Overrides, Policy, Wanted};

mod clients;
mod profile;

const EVERYTHING: &str = include_str!("tests/everything.yaml");

/// Reads a policy; one without a namespace as with `--namespace edge`.
fn read(text: &str) -> Result<Policy, String> {
    let namespace = (!text.contains("namespace:")).then(|| "edge".to_owned());
    let overrides = Overrides { namespace, ..Overrides::default() };
    Policy::read(text.as_bytes(), &overrides).map_err(|refused| refused.to_string())
}

#[test]
fn only_headers_that_the_module_reads_are_saved_and_written() {
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

/// If the module read `x-forwarded-proto` in place, the peer's value would remain when the module
/// fails.
#[test]
fn the_peers_header_is_removed_unless_the_policy_keeps_it() {
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
}

#[test]
fn policies_that_are_probably_not_intended_get_a_warning() {
    const NATIVE: &str = "placement: {sidecar: {native: true}}";
    const OFF: &str = "gate: {enabled: false}\n";
    const EXEMPT: &str = "drain: {long_lived: exempt}\n";
    const ROOT: &str = "namespace: istio-system\n";
    let trust = |range: &str, more: &str| {
        format!("forwarded_proto: {{presets: [gcp], trust: {{peers: [{range}]}}{more}}}\n")
    };
    for (text, words) in [
        (trust("10.0.0.0/8", ""), "10.0.0.0/8 && externalTrafficPolicy: Cluster"),
        (trust("10.0.0.0/16", ""), ""),
        (trust("10.0.0.0/16", "") + "namespace: istio-system", ""),
        (trust("10.0.0.0/16", "") + "placement: {gateway_api: {gateway: edge}}", ""),
        (trust("10.0.0.0/16", "") + NATIVE, "forwarded_proto.fallback"),
        (trust("10.0.0.0/16", ", fallback: http") + NATIVE, ""),
        ("placement: {sidecar: {}}".to_owned(), "placement.sidecar.native: is not written"),
        ("placement: {sidecar: {native: false}}".to_owned(), ""),
        (NATIVE.to_owned(), ""),
        (format!("{OFF}drain: {{longest_request: 10m}}"), "drain: there is no gate"),
        (OFF.to_owned(), ""),
        (EXEMPT.to_owned(), "drain.long_lived"),
        (format!("{EXEMPT}count: {{long_lived: {{grpc: false, paths: []}}}}"), "drain.long_lived"),
        (format!("{EXEMPT}end: {{websocket: end}}"), "drain.long_lived"),
        (format!("{EXEMPT}count: {{long_lived: {{grpc: true}}}}"), ""),
        (format!("{EXEMPT}count: {{long_lived: {{paths: [{{prefix: /ws}}]}}}}"), ""),
        (format!("{EXEMPT}end: {{websocket: exempt}}"), ""),
        ("drain: {long_lived: exempt, long_lived_after: 5m}".to_owned(), ""),
        ("end: {websocket: exempt}".to_owned(), ""),
        ("drain: {long_lived: wait}".to_owned(), ""),
        (ROOT.to_owned() + "placement: {waypoint: {class: istio-waypoint}}", ""),
        (ROOT.to_owned() + "placement: {gateway_api: {class: istio}}", "only the oldest ConfigMap"),
    ] {
        let warnings = read(&text).expect(&text).warnings.join("\n");
        assert!(words.split(" && ").all(|word| warnings.contains(word)), "{text}\n{warnings}");
        assert_eq!(warnings.is_empty(), words.is_empty(), "{text}\n{warnings}");
    }
}

#[test]
fn a_class_of_gateways_is_in_istiods_own_namespace() {
    let class = "placement: {gateway_api: {class: istio}}";
    let class = Policy::read(class.as_bytes(), &Overrides::default()).expect("a class");
    assert_eq!(class.namespace.as_deref(), Some("istio-system"));
}

#[test]
fn an_empty_policy_has_the_defaults() {
    for text in ["", "# nothing\n", "---\n", "{}"] {
        assert_eq!(read(text).expect(text).sizing.grace_period.to_string(), "30s");
    }
}

#[test]
fn envoy_gateway_without_a_gate_accepts_a_longest_request_for_retries() {
    const GATEWAY: &str = "namespace: a\nplacement: {envoy_gateway: {gateway: g}}\n";
    read(&format!("{GATEWAY}retries: {{host: a}}\ndrain: {{longest_request: 9s}}"))
        .expect("time of a try");
}

/// Secrets and Deployments may have dots in their names, namespaces may not.
#[test]
fn names_of_objects_may_have_dots() {
    let policy = |name: &str| {
        format!("namespace: a\npull_secret: {name}\nplacement: {{sidecar: {{workload: {name}}}}}\n")
    };
    read(&policy("registry.example.com")).expect("a policy");
    let refused = read(&policy("a..b")).expect_err("no name").to_string();
    for path in ["pull_secret", "placement.sidecar.workload"] {
        assert!(refused.contains(path), "{refused}");
    }
}

#[test]
fn a_tag_beside_a_digest_is_not_used() {
    let digest = format!("sha256:{}", "a".repeat(64));
    for (module, unused) in [
        ("oci://h/r:1", vec![("h/r:1".to_owned(), Wanted::Module, digest.clone())]),
        ("oci://h/r", vec![]),
        ("https://h/a.wasm", vec![]),
    ] {
        let policy = read(&format!("module: {module}\ndigest: {digest}")).expect(module);
        assert_eq!(policy.unused_tags(), unused, "{module}");
    }
}

#[test]
fn errors_name_the_field_and_the_fix() {
    let refused = |bytes: &[u8], what: &str| {
        let read = Policy::read(bytes, &Overrides::default()).map(drop);
        read.expect_err(what).to_string()
    };
    for case in include_str!("tests/refused.yaml").split("--- # ").skip(1) {
        let (words, text) = case.split_once('\n').expect("a policy below its words");
        let message = refused(text.as_bytes(), text);
        for of_rust in ["variant", "enum", "u16", "DuplicateKeyPolicy", "struct"] {
            assert!(!message.contains(of_rust), "{text}\nsaid: {message}");
        }
        for word in words.split(" && ") {
            assert!(message.contains(word), "{text}\nsaid: {message}\nlacks: {word}");
        }
        assert!(!message.contains('\n'), "one line: {message}");
    }
    assert!(read("a: b\n---\nc: d").expect_err("two documents").contains("line"));
    assert!(refused(b"\xff", "no text").contains("UTF-8"));
    assert!(refused(&vec![b' '; 2 << 20], "a long text").contains("bytes"));
}

#[test]
fn the_command_line_overrides_the_file() {
    let overrides = Overrides {
        module: Some("/a.wasm".into()),
        name: Some("b".into()),
        namespace: Some("c".into()),
        digest: None,
        istio: Some("1.30".into()),
        engine: Some(Engine::Wasm),
    };
    let text = format!(
        "digest: sha256:{}\nname: x\nmodule: oci://h/r:t\nistio: 1.29\nengine: native",
        "0".repeat(64)
    );
    let policy = Policy::read(text.as_bytes(), &overrides).expect("a policy");
    assert_eq!(
        (policy.name.as_str(), policy.namespace.as_deref(), policy.istio, policy.engine),
        ("b", Some("c"), Some((1, 30)), Engine::Wasm)
    );
    assert_eq!(policy.source(&|_, _| Err("unasked".into())).expect("a file").url(), "/a.wasm");
    let mounted = b"module: oci://h/r:t\ndelivery: image_volume";
    let policy = Policy::read(mounted, &overrides).expect("a file is not mounted");
    assert_eq!(policy.source(&|_, _| Err("unasked".into())).expect("a file").url(), "/a.wasm");
}

/// The place, the least and the greatest value of each number in objects of the schema.
fn numbers(schema: &Value, place: &str) -> Vec<(String, i64, i64)> {
    let fields = schema["properties"].as_object().into_iter().flatten();
    let numbers_in = |(name, field): (&String, &Value)| {
        let place = format!("{place}/{name}");
        match (field["minimum"].as_i64(), field["maximum"].as_i64()) {
            (Some(least), Some(most)) => vec![(place, least, most)],
            _ => numbers(field, &place),
        }
    };
    fields.flat_map(numbers_in).collect()
}

#[test]
fn the_schema_has_the_fields_of_the_module_and_the_bounds_of_the_check() {
    let everything: Value = serde_saphyr::from_str(EVERYTHING).expect("YAML");
    let schema = Policy::schema();
    assert_eq!(schema["additionalProperties"], false);
    let peers = "/properties/forwarded_proto/properties/trust/properties/peers";
    assert!(schema.pointer(peers).is_some(), "{schema:#}");
    let numbers = numbers(&schema, "");
    assert!(!numbers.is_empty(), "{numbers:?}");
    for (place, least, most) in numbers {
        let is_accepted = |number: i64| {
            let mut policy = everything.clone();
            *policy.pointer_mut(&place).expect(&place) = number.into();
            read(&policy.to_string()).is_ok()
        };
        let accepted = [least - 1, least, most, most + 1].map(is_accepted);
        assert_eq!(accepted, [false, true, true, false], "{place} from {least} to {most}");
    }
}
