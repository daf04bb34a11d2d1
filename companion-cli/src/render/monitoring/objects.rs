//! Rules and scrapes as objects of the Prometheus operator, and as Prometheus' own files.

use super::rules::{Alert, Group, Recording};
use super::scrape::{self, Relabel};
use super::{Settings, metadata};
use crate::base::yaml::{List, Map, Node};
use crate::policy::Policy;
use crate::render::{File, object, objects, other};

const RULES_FILE: &str = "prometheus-rules.yaml";

pub(super) fn prometheus_rule(policy: &Policy, rules: &[Group]) -> File {
    let object = of_operator("PrometheusRule", policy, groups(rules));
    let about = [format!(
        "For the Prometheus operator, which takes the objects that its `ruleSelector` selects: \
            write the labels that it asks for into the policy's `labels`. {RULES_FILE} has the \
            same rules."
    )];
    objects("prometheusrule.yaml", &about, &[object])
}

fn of_operator(kind: &str, policy: &Policy, spec: Map) -> Map {
    object("monitoring.coreos.com/v1", kind, metadata(policy, &policy.name), spec)
}

pub(super) fn rules_file(rules: &[Group]) -> File {
    let about = ["For a Prometheus without the operator: one of its `rule_files`. \
        prometheusrule.yaml has the same rules."
        .to_owned()];
    other(RULES_FILE, &about, groups(rules))
}

/// `groups`, which PrometheusRule and rule file share.
fn groups(rules: &[Group]) -> Map {
    let group = |group: &Group| {
        let recordings = group.recordings.iter().map(recording);
        let rules: List = recordings.chain(group.alerts.iter().map(alert)).collect();
        Map::of("name", group.name.as_str())
            .with("interval", group.interval.as_str())
            .with("rules", rules)
    };
    Map::of("groups", rules.iter().map(group).collect::<List>())
}

fn recording(rule: &Recording) -> Map {
    let labels: Option<Map> = (!rule.labels.is_empty())
        .then(|| rule.labels.iter().map(|(key, value)| (*key, value.as_str())).collect());
    Map::new()
        .note(rule.reason)
        .with("record", rule.record)
        .with("expr", Node::Block(rule.expr.clone()))
        .with_some("labels", labels)
}

fn alert(rule: &Alert) -> Map {
    let annotations = Map::of("summary", rule.summary)
        .with("description", rule.reason)
        .with("runbook_url", rule.runbook.as_str());
    Map::new()
        .note(rule.reason)
        .with("alert", rule.name)
        .with("expr", Node::Block(rule.expr.clone()))
        .with_some("for", rule.pending.as_deref())
        .with("labels", Map::of("severity", rule.severity))
        .with("annotations", annotations)
}

pub(super) fn pod_monitor(policy: &Policy, settings: &Settings) -> File {
    let endpoint = Map::of("port", scrape::port(policy))
        .with("path", scrape::PATH)
        .with("interval", settings.monitoring.scrape_interval().to_string())
        .with("relabelings", relabelings(&scrape::of_pods(policy, settings), CAMEL))
        .with("metricRelabelings", relabelings(&scrape::of_metrics(), CAMEL));
    let selector: Map = scrape::labels(policy).into_iter().collect();
    let selector = if selector == Map::new() { selector } else { Map::of("matchLabels", selector) };
    let namespaces = scrape::namespace(policy).map_or_else(
        || Map::of("any", true),
        |namespace| Map::of("matchNames", List::of(namespace)),
    );
    let spec = Map::of("selector", selector)
        .with("namespaceSelector", namespaces)
        .with("podMetricsEndpoints", List::of(endpoint));
    let object = of_operator("PodMonitor", policy, spec);
    let about = ["For the Prometheus operator, which takes the objects that its \
        `podMonitorSelector` selects: write the labels that it asks for into the policy's `labels`."
        .to_owned()];
    objects("podmonitor.yaml", &about, &[object])
}

pub(super) fn prometheus(policy: &Policy, settings: &Settings) -> File {
    let targets = &settings.monitoring.targets;
    let interval = settings.monitoring.scrape_interval().to_string();
    let mut job = Map::of("job_name", settings.job.as_str())
        .with("metrics_path", scrape::PATH)
        .with("scrape_interval", interval.as_str());
    let labels = if targets.is_empty() {
        let discovery = Map::of("role", "pod").with_some(
            "namespaces",
            scrape::namespace(policy).map(|namespace| Map::of("names", List::of(namespace))),
        );
        job = job.with("kubernetes_sd_configs", List::of(discovery));
        [scrape::selection(policy), scrape::of_pods(policy, settings)].concat()
    } else {
        let list: List = targets.iter().map(String::as_str).collect();
        let group = Map::of("targets", list);
        job = job.with("static_configs", List::of(group));
        scrape::of_targets(policy, settings)
    };
    let job = job
        .with("relabel_configs", relabelings(&labels, SNAKE))
        .with("metric_relabel_configs", relabelings(&scrape::of_metrics(), SNAKE));
    let document = Map::of("global", Map::of("evaluation_interval", interval))
        .with("rule_files", List::of(RULES_FILE))
        .with("scrape_configs", List::of(job));
    let about = ["A whole configuration for a Prometheus without the operator. In one that \
        you have, add the rule file and the scrape configuration."
        .to_owned()];
    other("prometheus.yaml", &about, document)
}

/// The names of the two fields whose spelling differs.
type Names = [&'static str; 2];
const CAMEL: Names = ["sourceLabels", "targetLabel"];
const SNAKE: Names = ["source_labels", "target_label"];

fn relabelings(rules: &[Relabel], [sources, target]: Names) -> List {
    rules.iter().fold(List::new(), |list, rule| {
        let from: Option<List> =
            (!rule.sources.is_empty()).then(|| rule.sources.iter().map(String::as_str).collect());
        let map = Map::new()
            .with_some(sources, from)
            .with_some("regex", rule.regex.as_deref())
            .with_some(target, rule.target)
            .with_some("replacement", rule.replacement.as_deref())
            .with_some("action", rule.action);
        list.note(rule.reason).item(map)
    })
}

pub(super) fn dashboard() -> File {
    let text = format!("{:#}\n", super::dashboard::json());
    File { name: "grafana-dashboard.json".into(), text, applies: false }
}
