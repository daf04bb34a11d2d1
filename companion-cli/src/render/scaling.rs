//! Scaling by streams in flight: with KEDA, or with a HorizontalPodAutoscaler and the Prometheus
//! adapter. Both leave out the streams of pods that drain, because new pods do not take them over.

use super::monitoring::Settings;
use super::{Kind, Rendered, metadata, object, objects, other};
use crate::base::yaml::{List, Map};
use crate::policy::file::{GatewayApi, Placement, Scaling};
use crate::policy::{Policy, PolicyProblem};

/// The metric that the adapter serves.
const METRIC: &str = "laststream_streams_in_flight";
/// The comment on queries, which sum the streams of proxies whose gate serves.
const WHY_SERVING: &str = "Pods that drain are left out: new pods do not take their streams over.";
const ONE_AUTOSCALER: &str = "A Deployment has one autoscaler: of two, Kubernetes follows neither. \
    Istio's gateway chart makes one by default: set `autoscaling: {enabled: false}` in its values \
    first, and no `replicaCount`. The number of pods then stays until this object changes it.";

fn scaling<'p>(policy: &'p Policy, kind: &str) -> Result<&'p Scaling, PolicyProblem> {
    let scaling = policy.scaling.as_ref().ok_or_else(|| {
        PolicyProblem::new(
            "scaling",
            format!(
                "is required for `render {kind}`: write `scaling: {{deployment: NAME, \
                    streams_per_pod: 100}}`"
            ),
        )
    })?;
    match why_not(policy) {
        Some(why) => Err(PolicyProblem::new("scaling", why)),
        None => Ok(scaling),
    }
}

/// The reason why the rendered autoscaler would never scale.
fn why_not(policy: &Policy) -> Option<&'static str> {
    if policy.gate_port.is_none() {
        Some("counts proxies whose gate serves, and there is no gate: take it out")
    } else if matches!(policy.placement, Placement::EnvoyGateway(_)) {
        Some(
            "has no effect on Envoy Gateway, which sets its replicas: use `envoyHpa` of EnvoyProxy",
        )
    } else if policy.placement.class().is_some() {
        Some("scales one Deployment, and a class has many: write a policy for one Gateway")
    } else if let Placement::GatewayApi(GatewayApi { autoscaler: Some(_), .. }) = &policy.placement
    {
        Some(
            "makes a second autoscaler beside `placement.gateway_api.autoscaler`, and Kubernetes \
                follows neither: take one of them out",
        )
    } else {
        None
    }
}

/// `behavior`: scaling down is slow, because a pod that goes keeps its streams until its deadline.
fn behaviour(policy: &Policy) -> Map {
    let window = policy.sizing.deadline.whole_seconds().max(300);
    let down = Map::new()
        .note(
            "A pod that goes drains until its deadline at most. Streams come and go in bursts, and \
            each change of mind costs a drain.",
        )
        .with("stabilizationWindowSeconds", window.min(3_600));
    Map::of("scaleDown", down)
}

fn query(policy: &Policy, scaling: &Scaling) -> String {
    let job = Settings::of(policy).job;
    let matchers = format!("job=\"{job}\", scope!=\"outbound\"{}", own(policy, scaling));
    format!(
        "sum(laststream:streams_in_flight{{{matchers}}} and on (job, instance) \
         (laststream:gate_state{{job=\"{job}\"}} == 0))"
    )
}

/// Matchers for the Deployment's own streams: a job may have several Deployments and namespaces.
/// Targets that the policy lists have neither.
fn own(policy: &Policy, scaling: &Scaling) -> String {
    if !Settings::of(policy).monitoring.targets.is_empty() {
        return String::new();
    }
    let namespace = policy.namespace.as_ref();
    let namespace = namespace.map(|name| format!(", namespace=\"{name}\"")).unwrap_or_default();
    format!("{namespace}, workload=\"{}\"", scaling.deployment)
}

pub(super) fn render(kind: Kind, policy: &Policy) -> Result<Rendered, PolicyProblem> {
    if kind == Kind::Keda { keda(policy) } else { hpa(policy) }
}

fn keda(policy: &Policy) -> Result<Rendered, PolicyProblem> {
    let scaling = scaling(policy, "keda")?;
    let Some(prometheus) = &scaling.prometheus else {
        return Err(PolicyProblem::new(
            "scaling.prometheus",
            "is required for `render keda`: write the address of Prometheus, such as \
                `http://prometheus.monitoring:9090`",
        ));
    };
    let trigger = Map::of("serverAddress", prometheus.as_str())
        .note(WHY_SERVING)
        .with("query", query(policy, scaling))
        .with("threshold", scaling.streams_per_pod.to_string())
        .note("Without an answer the number of pods stays: no answer is not zero streams.")
        .with("ignoreNullValues", "false");
    let trigger =
        Map::of("type", "prometheus").with("metricType", "AverageValue").with("metadata", trigger);
    let (min, max) = scaling.bounds();
    let advanced = Map::of("horizontalPodAutoscalerConfig", Map::of("behavior", behaviour(policy)));
    let spec = Map::of("scaleTargetRef", Map::of("name", scaling.deployment.as_str()))
        .with("minReplicaCount", min)
        .with("maxReplicaCount", max)
        .with("advanced", advanced)
        .with("triggers", List::of(trigger));
    let metadata = metadata(policy, &policy.name);
    let object = object("keda.sh/v1alpha1", "ScaledObject", metadata, spec);
    let about =
        ["The query uses what `render monitoring` records.".to_owned(), ONE_AUTOSCALER.to_owned()];
    let file = objects("scaledobject.yaml", &about, &[object]);
    Ok(vec![file].into())
}

fn hpa(policy: &Policy) -> Result<Rendered, PolicyProblem> {
    let scaling = scaling(policy, "hpa")?;
    if !Settings::of(policy).monitoring.targets.is_empty() {
        return Err(PolicyProblem::new(
            "monitoring.targets",
            "have no pods that a HorizontalPodAutoscaler could ask: use `render keda`",
        ));
    }
    let target =
        Map::of("type", "AverageValue").with("averageValue", scaling.streams_per_pod.to_string());
    let pods = Map::of("metric", Map::of("name", METRIC)).with("target", target);
    let (min, max) = scaling.bounds();
    let reference = Map::of("apiVersion", "apps/v1")
        .with("kind", "Deployment")
        .with("name", scaling.deployment.as_str());
    let spec = Map::of("scaleTargetRef", reference)
        .with("minReplicas", min)
        .with("maxReplicas", max)
        .with("metrics", List::of(Map::of("type", "Pods").with("pods", pods)))
        .with("behavior", behaviour(policy));
    let metadata = metadata(policy, &policy.name);
    let object = object("autoscaling/v2", "HorizontalPodAutoscaler", metadata, spec);
    let needs = format!(
        "Needs the metric `{METRIC}` from the Prometheus adapter: prometheus-adapter.values.yaml."
    );
    let about = [needs, ONE_AUTOSCALER.to_owned()];
    let files = vec![objects("hpa.yaml", &about, &[object]), adapter()];
    Ok(files.into())
}

/// A rule of the adapter's chart. It has no job: the adapter keeps one rule for each metric, and an
/// autoscaler names its namespace and pods, which come in `LabelMatchers`.
fn adapter() -> super::File {
    // The adapter uses `seriesQuery` to find series; only `metricsQuery` decides what it sums.
    const NOT_OUTBOUND: &str = "scope!=\"outbound\"";
    let overrides = Map::of("namespace", Map::of("resource", "namespace"))
        .with("pod", Map::of("resource", "pod"));
    let rule = Map::of("seriesQuery", format!("laststream:streams_in_flight{{{NOT_OUTBOUND}}}"))
        .with("resources", Map::of("overrides", overrides))
        .with("name", Map::of("as", METRIC))
        .note(WHY_SERVING)
        .with(
            "metricsQuery",
            format!(
                "sum by (<<.GroupBy>>) (<<.Series>>{{<<.LabelMatchers>>, {NOT_OUTBOUND}}} and on \
                 (job, instance) (laststream:gate_state == 0))"
            ),
        );
    let values = Map::of("rules", Map::of("custom", List::of(rule)));
    let about =
        ["Values for the chart prometheus-adapter. One rule serves all policies. The query \
        uses what `render monitoring` records."
            .to_owned()];
    other("prometheus-adapter.values.yaml", &about, values)
}

#[cfg(test)]
mod tests {
    use std::ops::Add as _;

    use super::*;
    use crate::render::tests;

    const EDGE: &str = "module: /a.wasm\nname: edge\n\
        scaling: {deployment: d, streams_per_pod: 1, prometheus: \"http://p\"}\n";

    fn keda_query(policy: &str) -> String {
        let object = tests::yaml(&tests::rendered(Kind::Keda, policy)[0]);
        object["spec"]["triggers"][0]["metadata"]["query"].as_str().unwrap().to_owned()
    }

    #[test]
    fn the_adapter_sums_what_keda_sums() {
        let values = tests::yaml(&adapter());
        let adapter = values["rules"]["custom"][0]["metricsQuery"].as_str().unwrap();
        // Removes the job, the namespace and the workload, which only KEDA's query names.
        let keda = [
            ("job=\"istio-system/edge\", ", "<<.LabelMatchers>>, "),
            (", namespace=\"istio-system\", workload=\"d\"", ""),
            ("{job=\"istio-system/edge\"}", ""),
            ("sum(laststream:streams_in_flight", "sum by (<<.GroupBy>>) (<<.Series>>"),
        ];
        let keda = keda.iter().fold(keda_query(EDGE), |query, (from, to)| query.replace(from, to));
        assert_eq!(adapter, keda);
    }

    /// Otherwise the adapter would serve only one of the policies.
    #[test]
    fn one_rule_of_the_adapter_serves_all_policies() {
        let web = "placement: {sidecar: {}}\nnamespace: shop\n";
        let [edge, web] = [EDGE.to_owned(), format!("{EDGE}{web}").replace("edge", "web")]
            .map(|policy| tests::rendered(Kind::Hpa, &policy));
        assert_eq!(tests::yaml(&edge[1]), tests::yaml(&web[1]));
        assert_ne!(tests::yaml(&edge[0]), tests::yaml(&web[0]));
    }

    #[test]
    fn policies_that_would_never_scale_are_refused() {
        for more in [
            "gate: {enabled: false}\n",
            "namespace: a\nplacement: {envoy_gateway: {gateway: g}}\n",
            "placement: {gateway_api: {class: istio}}\n",
            "namespace: a\nplacement: {gateway_api: {gateway: g, autoscaler: {maxReplicas: 3}}}\n",
        ] {
            let policy = tests::policy(&EDGE.replace("/a.wasm", "oci://h/r:t").add(more));
            assert!([keda(&policy), hpa(&policy)].iter().all(Result::is_err), "{more}");
        }
        let listed = tests::policy(&format!("{EDGE}monitoring: {{targets: [\"a:1\"]}}\n"));
        assert!(keda(&listed).is_ok() && hpa(&listed).is_err());
    }

    /// The gateway chart makes a HorizontalPodAutoscaler by default.
    #[test]
    fn the_chart_s_own_autoscaler_is_named() {
        for kind in [Kind::Keda, Kind::Hpa] {
            let text = tests::rendered(kind, EDGE)[0].text.replace("\n# ", " ");
            assert!(text.contains("autoscaling: {enabled: false}"), "{text}");
        }
    }

    #[test]
    fn keda_sums_the_streams_of_the_deployment_alone() {
        let sidecars = "placement: {sidecar: {}}\nnamespace: shop\n";
        for (more, matchers) in [
            (sidecars, "outbound\", namespace=\"shop\", workload=\"d\"}"),
            ("", "outbound\", namespace=\"istio-system\", workload=\"d\"}"),
            ("monitoring: {targets: [\"a:1\"]}\n", "outbound\"}"),
        ] {
            let query = keda_query(&format!("{EDGE}{more}"));
            assert!(query.contains(matchers), "`{matchers}` in {query}");
        }
    }
}
