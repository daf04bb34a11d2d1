//! What is asked for and cannot be had, and what is said then.

use crate::support::{DIGEST, gateway, laststream, render_policy, said};

#[test]
fn a_module_is_enough() {
    let module = format!("oci://ghcr.io/example/laststream:0.1.0@{DIGEST}");
    let said = said(laststream().args([
        "render",
        "envoyfilter",
        "--image",
        &module,
        "--namespace",
        "edge",
        "--name",
        "last",
    ]));
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.data.contains("name: last.edge.gate"), "{}", said.data);
    assert!(
        said.data.contains(&format!("uri: oci://ghcr.io/example/laststream@{DIGEST}")),
        "{}",
        said.data
    );
}

#[test]
fn what_cannot_be_had_is_said() {
    let sidecar = "namespace: a\nplacement: {sidecar: {}}\n";
    let waypoint = "namespace: a\nplacement: {waypoint: {gateway: w}}\n";
    let envoy = "placement: {envoy: {}}\n";
    for (kind, policy, code, words) in [
        ("envoyfilter", String::new(), 2, "module: is required"),
        ("envoyfilter", "module: oci://ghcr.io/example/laststream:latest".into(), 2, "--digest"),
        ("envoyfilter", format!("{waypoint}module: /a.wasm"), 2, "wasmplugin"),
        ("envoyfilter", format!("{envoy}module: /a.wasm"), 2, "render envoy"),
        ("envoy", gateway(), 2, "placement: {envoy: {}}"),
        ("envoy", format!("{envoy}module: https://h/a.wasm\ndigest: {DIGEST}"), 2, "name the file"),
        ("envoy-gateway", gateway(), 2, "envoy_gateway"),
        ("lifecycle", waypoint.into(), 2, "gate"),
        ("lifecycle", "gate: {enabled: false}".into(), 2, "gate"),
        ("lifecycle --for gateway-chart", sidecar.into(), 2, "--for pod"),
        ("lifecycle --for native-sidecar", String::new(), 2, "--for gateway-chart"),
        ("proxy-config", envoy.into(), 2, "placement"),
        ("proxy-config", "gate: {enabled: false}".into(), 2, "does not do by itself"),
        ("virtualservice", String::new(), 2, "retries: {host"),
        ("job", String::new(), 2, "job: {container"),
        (
            "job",
            "job: {container: a, command: [b], program_image: c}".into(),
            2,
            "placement: {sidecar: {}}",
        ),
        ("envoyfilter --for pod", gateway(), 64, "--for"),
        ("lifecycles", String::new(), 64, "lifecycle"),
        ("all", gateway(), 64, "--output DIR"),
        ("all --check a --output b", String::new(), 64, "--output"),
        ("envoyfilter", "nam: x".into(), 2, "-: line 1, column 1"),
    ] {
        let said = render_policy(&policy, &kind.split(' ').collect::<Vec<_>>());
        assert_eq!(said.code, code, "{kind} {policy}: {said:?}");
        assert!(said.people.contains(words) && said.data.is_empty(), "{kind} {policy}: {said:?}");
    }
    let missing = said(laststream().args(["render", "all", "--policy", "/nowhere/policy.yaml"]));
    assert!(missing.code == 2 && missing.people.contains("/nowhere/policy.yaml"), "{missing:?}");
}

#[test]
fn what_is_allowed_but_worth_a_word_is_a_warning() {
    let everybody = gateway().replace("10.0.0.0/16", "0.0.0.0/0");
    let said = render_policy(&everybody, &["envoyfilter"]);
    assert!(said.code == 0 && said.people.contains("every address is trusted"), "{said:?}");
    let secret = render_policy(&(gateway() + "pull_secret: registry\n"), &["envoyfilter"]);
    assert!(secret.code == 0 && secret.people.contains("wasmplugin"), "{secret:?}");
}

/// What Istio's stop flow wants of the parts, in every home.
#[test]
fn hooks_fit_their_times() {
    let policy = "drain: {longest_request: 60s}";
    for home in ["pod", "helm-values", "gateway-chart"] {
        let said = render_policy(policy, &["lifecycle", "--for", home]);
        assert!(
            said.data.contains("--url=http://127.0.0.1:15091/prestop")
                && said.data.contains("--timeoutSeconds=64"),
            "{}",
            said.data
        );
        assert!(said.data.contains("terminationGracePeriodSeconds: 70"), "{}", said.data);
    }
}
