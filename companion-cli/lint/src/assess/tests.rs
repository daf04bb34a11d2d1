//! What the next stop cuts, of the smallest manifests.

use laststream_assess::{Row, cells};

use super::assess;
use crate::{Assume, SourceFile};

fn rows(text: &str, istio: Option<(u32, u32)>) -> Vec<Row> {
    let source = SourceFile::new("a.yaml", text.as_bytes().to_vec());
    assess(vec![source], Assume { istio, ..Assume::default() }).unwrap().0.rows
}

/// Workload, proxy, grace period, longest request, and the verdict's first word, of each row.
fn shown(text: &str, istio: Option<(u32, u32)>) -> String {
    let line = |row: &Row| {
        let [workload, proxy, _, grace, longest, .., verdict] = cells(row);
        let verdict = verdict.split(':').next().unwrap_or_default().to_owned();
        [workload, proxy, grace, longest, verdict].join("; ")
    };
    rows(text, istio).iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A Deployment whose template has these lines of metadata and spec.
fn deployment(metadata: &str, spec: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a, namespace: b}}\nspec:\n  \
         selector: {{}}\n  template:\n    metadata: {{{metadata}}}\n    spec: {{{spec}}}\n"
    )
}

const GATEWAY: &str = "annotations: {inject.istio.io/templates: gateway}";
const AUTO: &str = "containers: [{name: istio-proxy, image: auto}]";
const APP: &str = "containers: [{name: app, image: app:1}]";
const INJECTED: &str = "labels: {sidecar.istio.io/inject: \"true\"}";

#[test]
fn each_kind_of_proxy_is_told_by_its_manifest() {
    let gateway = |config: &str| {
        let metadata = format!(
            "annotations: {{inject.istio.io/templates: gateway, proxy.istio.io/config: '{config}'}}"
        );
        deployment(&metadata, AUTO)
    };
    let hooked = |hook: &str| {
        let spec = format!(
            "containers: [{{name: istio-proxy, image: auto, lifecycle: {{preStop: {hook}}}}}]"
        );
        deployment(GATEWAY, &spec)
    };
    let with_env = |env: &str| {
        deployment(
            GATEWAY,
            &format!("containers: [{{name: istio-proxy, image: auto, env: [{env}]}}]"),
        )
    };
    let gateway_api = |class: &str, more: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: a, \
             namespace: b}}\nspec: {{gatewayClassName: {class}{more}}}\n"
        )
    };
    let envoy_proxy = "---\napiVersion: gateway.envoyproxy.io/v1alpha1\nkind: EnvoyProxy\n\
        metadata: {name: p, namespace: b}\nspec: {shutdown: {drainTimeout: 20s}}\n";
    let mesh = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio, namespace: \
        istio-system}\ndata:\n  mesh: |-\n    defaultConfig: {terminationDrainDuration: 40s}\n";
    let namespace = |label: &str| {
        format!(
            "---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: b, labels: {{{label}}}}}\n"
        )
    };
    let job = deployment(INJECTED, &format!("restartPolicy: Never, {APP}"))
        .replace("apps/v1", "batch/v1")
        .replace("Deployment", "Job");
    let parameters = ", infrastructure: {parametersRef: {group: gateway.envoyproxy.io, \
        kind: EnvoyProxy, name: p}}";
    let annotated = ", infrastructure: {annotations: {proxy.istio.io/config: \
        'terminationDrainDuration: 20s'}}";
    for (text, istio, expected) in [
        (deployment(GATEWAY, AUTO), None, "Deployment b/a; chart gateway; 30 s; 5 s *; yes"),
        (
            gateway("terminationDrainDuration: 20s"),
            None,
            "Deployment b/a; chart gateway; 30 s; 20 s; yes",
        ),
        (
            gateway("terminationDrainDuration: ${TIME}"),
            None,
            "Deployment b/a; chart gateway; 30 s; ≥ 0 s; it depends",
        ),
        (
            gateway("{}") + mesh,
            None,
            "Deployment b/a; chart gateway; 30 s; 30 s; for long streams only",
        ),
        (hooked("{sleep: {seconds: 5}}"), None, "Deployment b/a; chart gateway; 30 s; 10 s *; yes"),
        (
            hooked("{exec: {command: [sh, -c, sleep 7]}}"),
            None,
            "Deployment b/a; chart gateway; 30 s; 12 s *; yes",
        ),
        (
            hooked("{exec: {command: [sh, -c, \"while true; do sleep 1; done\"]}}"),
            None,
            "Deployment b/a; chart gateway; 30 s; ≥ 5 s; it depends",
        ),
        (
            with_env("{name: EXIT_ON_ZERO_ACTIVE_CONNECTIONS, value: \"true\"}"),
            None,
            "Deployment b/a; chart gateway; 30 s; 30 s; for long streams only",
        ),
        (
            with_env("{name: TERMINATION_DRAIN_DURATION_SECONDS, value: \"60\"}"),
            None,
            "Deployment b/a; chart gateway; 30 s; ≥ 0 s; it depends",
        ),
        (
            with_env("{name: PROXY_CONFIG, value: '{\"terminationDrainDuration\":\"8s\"}'}"),
            None,
            "Deployment b/a; chart gateway; 30 s; 8 s; yes",
        ),
        (gateway_api("istio", ""), None, "Gateway b/a; Gateway API gateway; 30 s; 5 s *; yes"),
        (
            gateway_api("istio", annotated),
            None,
            "Gateway b/a; Gateway API gateway; 30 s; 20 s; yes",
        ),
        (gateway_api("istio-waypoint", ""), None, "Gateway b/a; waypoint; 30 s; 5 s *; yes"),
        (
            gateway_api("eg", ""),
            None,
            "Gateway b/a; Envoy Gateway; 360 s; 60 s *; for long streams only",
        ),
        (
            gateway_api("x", parameters) + envoy_proxy,
            None,
            "Gateway b/a; Envoy Gateway; 320 s; 20 s; yes",
        ),
        (gateway_api("nginx", ""), None, ""),
        (gateway_api("istio", ", addresses: [{type: istio.io/Fake, value: a}]"), None, ""),
        (deployment(INJECTED, APP), None, "Deployment b/a; sidecar; 30 s; ≥ 5 s; it depends"),
        (
            deployment(INJECTED, APP),
            Some((1, 26)),
            "Deployment b/a; classic sidecar; 30 s; 5 s *; yes",
        ),
        (
            deployment(INJECTED, APP),
            Some((1, 31)),
            "Deployment b/a; native sidecar; 30 s; 30 s; no",
        ),
        (
            deployment(INJECTED, APP) + "---\nENABLE_NATIVE_SIDECARS: \"false\"\n",
            Some((1, 31)),
            "Deployment b/a; classic sidecar; 30 s; 5 s *; yes",
        ),
        (
            deployment("", APP) + &namespace("istio-injection: enabled"),
            Some((1, 31)),
            "Deployment b/a; native sidecar; 30 s; 30 s; no",
        ),
        (
            deployment("", APP) + &namespace("istio.io/dataplane-mode: ambient"),
            None,
            "Deployment b/a; ambient app, no proxy; 30 s; ≥ 0 s; no",
        ),
        (deployment("", APP), Some((1, 31)), ""),
        (deployment("labels: {sidecar.istio.io/inject: \"false\"}", AUTO), None, ""),
        (
            deployment("", "containers: [{name: x, image: envoyproxy/envoy:v1.36.4}]"),
            None,
            "Deployment b/a; Envoy without a mesh; 30 s; 0 s; yes",
        ),
        (deployment("", "containers: [{name: x, image: envoyproxy/gateway:v1.9.0}]"), None, ""),
        (
            "admin: {}\nstatic_resources: {listeners: []}\n".to_owned(),
            None,
            "Envoy; Envoy without a mesh; not known; 0 s; yes",
        ),
        (
            "node: {id: a}\ndynamic_resources: {lds_config: {ads: {}}}\n".to_owned(),
            None,
            "Envoy; Envoy without a mesh; not known; ≥ 0 s; it depends",
        ),
        (
            "dynamic_resources: {lds_config: {ads: {}}}\nstatic_resources: {listeners: [{}]}\n"
                .to_owned(),
            None,
            "Envoy; Envoy without a mesh; not known; 0 s; yes",
        ),
        (job, Some((1, 26)), "Job b/a; classic sidecar of a Job; 30 s; 5 s *; yes"),
        (
            "terminationGracePeriodSeconds: 40\nlabels: {istio: ingressgateway}\n".to_owned(),
            None,
            "values of istio/gateway; chart gateway; 40 s; 5 s *; yes",
        ),
        ("replicaCount: 2\nservice: {type: ClusterIP}\n".to_owned(), None, ""),
    ] {
        assert_eq!(shown(&text, istio), expected, "{text}");
    }
}

/// What Istio's webhook has written, and templates of its that have no Envoy.
#[test]
fn what_was_injected_has_only_what_is_there() {
    let drain = "containers: [{name: istio-proxy, image: auto, lifecycle: {preStop: {exec: \
        {command: [pilot-agent, request, POST, drain]}}}}]";
    for (metadata, spec, expected) in [
        (GATEWAY, drain, "Deployment b/a; chart gateway; 30 s; 0 s; yes"),
        ("annotations: {sidecar.istio.io/status: '{}'}", APP, ""),
        ("annotations: {inject.istio.io/templates: grpc-agent}", AUTO, ""),
        (
            "annotations: {inject.istio.io/templates: \"sidecar,own\"}",
            APP,
            "Deployment b/a; sidecar; 30 s; ≥ 5 s; it depends",
        ),
        ("", "containers: [{name: istio-proxy, image: z, args: [proxy, ztunnel]}]", ""),
        (
            GATEWAY,
            "containers: [{name: istio-proxy, image: auto, command: [envoy], args: [-c, a.yaml]}]",
            "Deployment b/a; Envoy without a mesh; 30 s; 0 s; yes",
        ),
        (
            "annotations: {ambient.istio.io/redirection: enabled}",
            "containers: [{name: app, image: a, lifecycle: {preStop: {sleep: {seconds: 5}}}}]",
            "Deployment b/a; ambient app, no proxy; 30 s; ≥ 5 s; no",
        ),
    ] {
        assert_eq!(shown(&deployment(metadata, spec), None), expected, "{metadata} {spec}");
    }
}

/// Files that others make, and whose Envoys these others end, and an Envoy without streams.
#[test]
fn a_bootstrap_of_an_agent_and_values_of_other_charts_have_no_row() {
    let datagrams = "listeners: [{address: {socket_address: {protocol: UDP, port_value: 1}}}]";
    for text in [
        &format!("admin: {{}}\nstatic_resources: {{{datagrams}}}\n"),
        "admin: {}\nnode: {id: sidecar~10.0.0.1~a~b}\nstatic_resources: {listeners: []}\n",
        "admin: {}\nstatic_resources: {listeners: [{name: envoy-gateway-proxy-stats}]}\n",
        "admin: {}\nstatic_resources: {clusters: [{name: a}]}\n",
        "dynamic_resources: {}\nstatic_resources: {clusters: [{transport_socket: {typed_config: \
            {common_tls_context: {validation_context_sds_secret_config: {sds_config: \
            {path_config_source: {path: /sds/xds-trusted-ca.json}}}}}}}]}\n",
        "_internal_defaults_do_not_set: {image: ztunnel, terminationGracePeriodSeconds: 30}\n",
    ] {
        assert_eq!(shown(text, None), "", "{text}");
    }
    let own = "_internal_defaults_do_not_set: {terminationGracePeriodSeconds: 30}\n";
    assert!(shown(own, None).starts_with("values of istio/gateway"));
}

/// Files beside others: their settings count where they take effect.
#[test]
fn settings_of_a_host_and_of_older_versions_change_no_other_row() {
    let gateway = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: a}\n\
        spec: {gatewayClassName: eg}\n";
    let host = "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: EnvoyGateway\nprovider: {type: \
        Custom, custom: {infrastructure: {type: Host, host: {}}}}\n";
    let proxies = |files: [(&str, &str); 2]| {
        let sources =
            files.map(|(name, text)| SourceFile::new(name, text.as_bytes().to_vec())).into();
        let istio = Some((1, 31));
        let rows = assess(sources, Assume { istio, ..Assume::default() }).unwrap().0.rows;
        rows.iter().map(|row| cells(row)[1].clone()).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(proxies([("a/b/gateway.yaml", gateway), ("a/own.yaml", host)]), "");
    assert_eq!(proxies([("a/gateway.yaml", gateway), ("b/own.yaml", host)]), "Envoy Gateway");
    let app = deployment(INJECTED, APP);
    let older = (
        "files/profile-compatibility-version-1.26.yaml",
        "pilot: {env: \
        {ENABLE_NATIVE_SIDECARS: \"false\"}}\n",
    );
    assert_eq!(proxies([("app.yaml", &app), older]), "native sidecar");
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: b, labels: {";
    let injected = format!("{namespace}istio-injection: enabled}}}}\n");
    let app = deployment("", APP);
    assert_eq!(proxies([("a/app.yaml", &app), ("b/all.yaml", &injected)]), "native sidecar");
    let patched = format!("{namespace}a: b}}}}\n---\n{injected}");
    assert_eq!(proxies([("a/app.yaml", &app), ("b/all.yaml", &patched)]), "native sidecar");
    let app = format!("{app}---\n{namespace}}}}}\n");
    assert_eq!(proxies([("a/app.yaml", &app), ("b/all.yaml", &injected)]), "");
}

/// Of Envoy Gateway, with a grace period of the user's.
#[test]
fn the_hook_of_the_shutdown_manager_has_the_drain_time() {
    let shut = "{name: envoy, lifecycle: {preStop: {httpGet: {path: /shutdown/ready}}}}";
    let pod = |words: &str| {
        let manager = format!(
            "{{name: shutdown-manager, lifecycle: {{preStop: {{exec: {{command: [envoy-gateway, \
             envoy, shutdown{words}]}}}}}}}}"
        );
        let spec = format!("terminationGracePeriodSeconds: 90, containers: [{shut}, {manager}]");
        deployment("labels: {gateway.envoyproxy.io/owning-gateway-name: g}", &spec)
    };
    for (words, expected) in [
        ("", "Deployment b/a; Envoy Gateway; 90 s; 60 s; for long streams only"),
        (", --drain-timeout=20s", "Deployment b/a; Envoy Gateway; 90 s; 20 s; yes"),
    ] {
        assert_eq!(shown(&pod(words), None), expected, "{words}");
    }
}

/// A folder has the files of several clusters, and of several objects of one name.
#[test]
fn what_is_nearest_holds() {
    let gateway = deployment(GATEWAY, AUTO);
    let mesh =
        |time: &str| format!("meshConfig: {{defaultConfig: {{terminationDrainDuration: {time}}}}}");
    let [ten, twenty] = ["10s", "20s"].map(mesh);
    let crd = format!("apiVersion: a\nkind: CustomResourceDefinition\nspec: {{{ten}}}\n");
    let patch =
        deployment("annotations: {proxy.istio.io/config: 'terminationDrainDuration: 9s'}", "")
            .replace("selector: {}", "paused: false");
    let longest = |files: &[(&str, &str)]| {
        let gateways = [("a/gateway.yaml", &*gateway), ("b/gateway.yaml", &*gateway)];
        let files = gateways.iter().chain(files);
        let sources = files.map(|(name, text)| SourceFile::new(*name, text.as_bytes().to_vec()));
        let rows = assess(sources.collect(), Assume::default()).unwrap().0.rows;
        rows.iter().map(|row| cells(row)[4].clone()).collect::<Vec<_>>().join(", ")
    };
    for (files, expected) in [
        (&[("mesh.yaml", &*ten)][..], "10 s, 10 s"),
        (&[("a/mesh.yaml", &*ten), ("b/mesh.yaml", &twenty)], "10 s, 20 s"),
        (&[("c/mesh.yaml", &*ten), ("d/mesh.yaml", &twenty)], "5 s *, 5 s *"),
        (&[("a/mesh.yaml", "meshConfig: {}\n"), ("b/mesh.yaml", &ten)], "5 s *, 10 s"),
        (&[("crd.yaml", &*crd)], "5 s *, 5 s *"),
        (&[("b/patch.yaml", &*patch)], "5 s *, 9 s"),
    ] {
        assert_eq!(longest(files), expected, "{files:?}");
    }
}

/// As `laststream render` writes them.
#[test]
fn values_in_several_files_are_those_of_one_gateway() {
    let source = |name: &str, text: &str| SourceFile::new(name, text.as_bytes().to_vec());
    let rows = |files: [(&str, &str); 2]| {
        let sources = files.map(|(name, text)| source(name, text)).into();
        assess(sources, Assume::default()).unwrap().0.rows
    };
    let config = "podAnnotations:\n  proxy.istio.io/config: 'terminationDrainDuration: 60s'\n";
    let grace = "terminationGracePeriodSeconds: 90\n";
    for (other, expected) in [("a/lifecycle.yaml", Some(90)), ("b/lifecycle.yaml", Some(30))] {
        let rows = rows([("a/config.yaml", config), (other, grace)]);
        assert_eq!(rows.iter().map(|row| row.grace).collect::<Vec<_>>(), [expected], "{other}");
    }
}

#[test]
fn a_gate_is_seen_in_its_hook_and_a_patch_belongs_to_its_object() {
    let hook = "{exec: {command: [pilot-agent, wait, \
        \"--url=http://127.0.0.1:16091/prestop?wait\", \
        --timeoutSeconds=60]}}";
    let patch = format!(
        "kind: Deployment\nmetadata: {{name: a, namespace: b}}\nspec:\n  template:\n    spec:\n\
         \x20     \
         terminationGracePeriodSeconds: 90\n      containers: [{{name: istio-proxy, lifecycle: \
         {{preStop: {hook}}}}}]\n"
    );
    let text = format!("{}---\n{patch}", deployment(GATEWAY, AUTO));
    assert_eq!(shown(&text, None), "Deployment b/a; chart gateway; 90 s; 65 s *; no");
    assert_eq!(rows(&text, None)[0].stop.why, "laststream is there");
}
