//! Times in files of several policies, pods and charts: each is compared with those of its own
//! pods.

use crate::support::{Example, described, folder};

/// Asserts which rules about times have findings in these documents together.
#[track_caller]
fn finds(documents: &[&str], expected: &[&str]) {
    let example = Example { name: "times.yaml".into(), text: documents.join("---\n") };
    let codes = example.found().into_iter().map(|(_, code)| code);
    let mut codes: Vec<_> = codes.filter(|code| code.starts_with("LS55")).collect();
    codes.sort();
    assert_eq!(codes, expected, "{}", described(&example.findings()));
}

/// An EnvoyFilter with a gate of this deadline in seconds, for the pods of the app that has the
/// name of the namespace.
fn gate(namespace: &str, deadline: u32) -> String {
    let text = Example::read(&folder("LS558.good.yaml")).text;
    let (filter, _) = text.split_once("---\n").expect("two documents");
    filter
        .replace("namespace: istio-ingress", &format!("namespace: {namespace}"))
        .replace("{istio: ingressgateway}", &format!("{{app: {namespace}}}"))
        .replace("60000", &format!("{deadline}000"))
}

/// The stop hook of a container, or of values.
fn hook(seconds: u32) -> String {
    format!(
        "lifecycle: {{preStop: {{exec: {{command: [pilot-agent, wait, \
         \"--url=http://127.0.0.1:16091/prestop\", --timeoutSeconds={seconds}]}}}}}}"
    )
}

/// The app that has the name of its namespace.
fn workload(kind: &str, namespace: &str, annotations: &str, spec: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: {kind}\n\
         metadata: {{name: {namespace}, namespace: {namespace}}}\nspec:\n  \
         selector: {{matchLabels: {{app: {namespace}}}}}\n  template:\n    metadata:\n      \
         labels: {{app: {namespace}}}\n      annotations: {{{annotations}}}\n    spec: {{{spec}}}\n"
    )
}

/// A patch of the Deployment `shop`.
fn patch(template: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: shop, namespace: shop}}\n\
         spec:\n  template: {{{template}}}\n"
    )
}

fn drain(seconds: u32) -> String {
    format!("proxy.istio.io/config: \"drainDuration: {seconds}s\"")
}

/// `defaultConfig` of the mesh.
fn mesh(setting: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: istio, namespace: istio-system}}\n\
         data:\n  mesh: |-\n    defaultConfig:\n      {setting}\n"
    )
}

const SHORT: &str = "terminationGracePeriodSeconds: 30, containers: []";
const LONG: &str = "terminationGracePeriodSeconds: 70, containers: []";

#[test]
fn a_hook_is_compared_with_the_gate_of_its_pod() {
    let (edge, shop) = (gate("edge", 23), gate("shop", 63));
    let pod = |namespace: &str, seconds: u32| {
        let proxy = format!("{{name: istio-proxy, image: auto, {}}}", hook(seconds));
        let spec = format!("terminationGracePeriodSeconds: 70, containers: [{proxy}]");
        workload("Deployment", namespace, &drain(95), &spec)
    };
    let of_patch = |seconds: u32| {
        patch(&format!("spec: {{containers: [{{name: istio-proxy, {}}}]}}", hook(seconds)))
    };
    let values = |seconds: u32| format!("terminationGracePeriodSeconds: 30\n{}\n", hook(seconds));
    finds(&[&edge, &shop, &values(24)], &[]);
    finds(&[&edge, &shop, &values(20)], &["LS553"]);
    finds(&[&edge, &shop, &pod("shop", 64)], &[]);
    finds(&[&edge, &shop, &pod("shop", 24)], &["LS553"]);
    finds(&[&edge, &shop, &pod("other", 10)], &[]);
    finds(&[&edge, &shop, &of_patch(24)], &[]);
    finds(&[&edge, &shop, &of_patch(20)], &["LS553"]);
    let whole = workload("Deployment", "shop", &drain(95), LONG);
    finds(&[&edge, &shop, &of_patch(24), &whole], &["LS553"]);
}

#[test]
fn a_hook_of_two_pods_by_an_alias_is_compared_with_both_gates() {
    let of_web = |namespace: &str, deadline| {
        gate(namespace, deadline).replace(&format!("app: {namespace}"), "app: web")
    };
    let deployment = "apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace:";
    let proxy = format!("{{name: istio-proxy, image: auto, {}}}", hook(24));
    let template = format!(
        "metadata: {{labels: {{app: web}}, annotations: {{{}}}}}, \
         spec: {{terminationGracePeriodSeconds: 70, containers: [{proxy}]}}",
        drain(95)
    );
    let list = format!(
        "apiVersion: v1\nkind: List\nitems:\n\
         - {{{deployment} edge}}, spec: &web {{template: {{{template}}}}}}}\n\
         - {{{deployment} shop}}, spec: *web}}\n"
    );
    finds(&[&of_web("edge", 23), &of_web("shop", 63), &list], &["LS553"]);
}

#[test]
fn a_drain_time_applies_to_its_own_pods() {
    let (shop, orders) = (gate("shop", 63), gate("orders", 63));
    let annotated =
        |seconds: u32| patch(&format!("metadata: {{annotations: {{{}}}}}", drain(seconds)));
    finds(&[&shop, &gate("edge", 603), &annotated(95)], &[]);
    finds(&[&shop, &annotated(30)], &["LS558"]);
    finds(&[&shop, &annotated(30), &workload("Deployment", "shop", "", LONG)], &["LS558"]);
    let bare = workload("Deployment", "orders", "", LONG);
    finds(&[&orders, &bare, &annotated(95)], &["LS558"]);
    finds(&[&orders, &bare, &mesh("drainDuration: 95s")], &[]);
}

#[test]
fn a_pod_without_a_proxy_has_no_gate_and_no_agent() {
    let shop = gate("shop", 63);
    let inject = |value: &str| format!("sidecar.istio.io/inject: \"{value}\"");
    let both = ["LS551", "LS558"];
    finds(&[&shop, &workload("Job", "shop", &inject("true"), SHORT)], &both);
    finds(&[&shop, &workload("Job", "shop", &inject("false"), SHORT)], &[]);
    finds(&[&shop, &workload("Job", "shop", "", &format!("hostNetwork: true, {SHORT}"))], &[]);
    let own = SHORT.replace("[]", "[{name: istio-proxy, image: istio/proxyv2}]");
    finds(&[&shop, &workload("Deployment", "shop", &inject("false"), &own)], &both);
    let agent = mesh("terminationDrainDuration: 45s");
    finds(&[&agent, &workload("DaemonSet", "node", "", SHORT)], &["LS556"]);
    let of_node = format!("hostNetwork: true, {SHORT}");
    finds(&[&agent, &workload("DaemonSet", "node", "", &of_node)], &[]);
}

#[test]
fn a_rollout_of_argo_makes_pods() {
    let rollout = workload("Rollout", "shop", "", SHORT);
    finds(&[&gate("shop", 63), &rollout], &["LS551", "LS558"]);
}

/// Charts' values in a HelmRelease, and in an Application as a map and as a text.
#[test]
fn values_of_a_chart_are_read_where_they_stand() {
    const CHARTS: [&str; 3] = [
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: edge}\n\
         spec:\n  values:\n",
        "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: edge}\n\
         spec:\n  source:\n   helm:\n    valuesObject:\n",
        "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: edge}\n\
         spec:\n  sources:\n  - helm:\n     values: |\n",
    ];
    let gate = gate("edge", 63);
    let agent = "podAnnotations: {proxy.istio.io/config: \"terminationDrainDuration: 45s\"}";
    for chart in CHARTS {
        let values = |grace: u32, line: &str| {
            format!("{chart}      terminationGracePeriodSeconds: {grace}\n      {line}\n")
        };
        finds(&[&gate, &values(30, &hook(64))], &["LS551", "LS552"]);
        finds(&[&gate, &values(65, &hook(64))], &["LS551"]);
        finds(&[&gate, &values(70, &hook(64))], &[]);
        finds(&[&gate, &values(70, &hook(60))], &["LS553"]);
        finds(&[&values(30, agent)], &["LS556"]);
        finds(&[&values(50, agent)], &[]);
    }
}

fn route(gateway: &str, host: &str) -> String {
    format!(
        "apiVersion: networking.istio.io/v1\nkind: VirtualService\n\
         metadata: {{name: web, namespace: web}}\nspec:\n  hosts: [shop.example.com]\n  \
         gateways: [{gateway}]\n  http:\n  \
         - {{route: [{{destination: {{host: {host}}}}}], timeout: 300s}}\n"
    )
}

#[test]
fn a_route_comes_through_the_gateways_that_it_names() {
    let [public, internal] = [("public", 330), ("internal", 30)].map(|(name, grace)| {
        let spec = format!("terminationGracePeriodSeconds: {grace}, containers: []");
        let resource = format!(
            "apiVersion: networking.istio.io/v1\nkind: Gateway\n\
             metadata: {{name: {name}, namespace: web}}\n\
             spec: {{selector: {{app: {name}-ingressgateway}}}}\n---\n"
        );
        resource + &workload("Deployment", &format!("{name}-ingressgateway"), "", &spec)
    });
    finds(&[&public, &internal, &route("public", "a")], &[]);
    finds(&[&public, &internal, &route("web/internal", "a")], &["LS557"]);
    finds(&[&public, &internal, &route("elsewhere", "a")], &[]);
    finds(&[&internal, &route("elsewhere", "a")], &["LS557"]);
    finds(&[&public, &internal, &route("other/internal", "a")], &[]);
}

#[test]
fn a_host_is_a_service_of_one_namespace() {
    let other = workload("Deployment", "other", "", SHORT);
    for (host, expected) in [
        ("other", &[][..]),
        ("other.other.svc.cluster.local", &["LS557"]),
        ("other.web.svc.cluster.local", &[]),
        ("other.example.com", &[]),
    ] {
        finds(&[&other, &route("mesh", host)], expected);
    }
}
