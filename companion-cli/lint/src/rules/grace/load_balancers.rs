//! LS565: the times of a gate compared with those of the load balancer in front of its pods.

use laststream_filter::config::wire::Gate;
use laststream_policy::file::Behind;

use crate::modules::gated_pods;
use manifest_lint::{Findings, Inputs, Node, Object, Pod, of_kind};

const TYPE: &str = "service.beta.kubernetes.io/aws-load-balancer-type";
const TARGETS: &str = "service.beta.kubernetes.io/aws-load-balancer-nlb-target-type";
const ATTRIBUTES: &str = "service.beta.kubernetes.io/aws-load-balancer-target-group-attributes";
const DEREGISTRATION: &str = "deregistration_delay.timeout_seconds=";

pub(super) fn load_balancer_beyond_gate<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let gated = gated_pods(inputs);
    for service in of_kind(inputs, "Service") {
        let of_service = gated.iter().filter(|(_, _, pod)| selects(service, *pod));
        let gates: Vec<&Gate> = of_service.map(|(_, gate, _)| gate).collect();
        let Some(first) = gates.iter().min_by_key(|gate| gate.begin.delay_ms) else { continue };
        let annotations = service.node.fields("metadata.annotations");
        match annotations.and_then(network_balancer) {
            Some(place) => too_early(first, Behind::AwsNlb, place, findings),
            // No field says which kind of load balancer it is: an Application Load Balancer is the
            // one that stops earlier.
            None => bindings(service)
                .for_each(|place| too_early(first, Behind::AwsAlb, place, findings)),
        }
        let longest = gates.iter().max_by_key(|gate| gate.deadline_ms);
        let attributes = annotations.and_then(|annotations| annotations.get(ATTRIBUTES));
        if let Some((gate, attributes)) = longest.zip(attributes) {
            cut_before(gate, attributes, findings);
        }
    }
}

/// Whether the Service is for this pod of the same namespace.
fn selects(service: Object<'_>, pod: Pod<'_>) -> bool {
    let Some(selector) = service.node.fields("spec.selector") else { return false };
    let mut labels = selector.entries();
    let is_one = selector.entries().next().is_some();
    is_one
        && service.namespace() == pod.namespace()
        && labels.all(|(key, value)| value.text().is_some_and(|text| pod.label(key) == Some(text)))
}

/// The annotation that makes a Network Load Balancer with the pods' own addresses.
fn network_balancer(annotations: Node<'_>) -> Option<Node<'_>> {
    let kind = annotations.get(TYPE)?;
    let targets = annotations.get(TARGETS).and_then(Node::text);
    let has_pods = targets == Some("ip") || kind.text() == Some("nlb-ip");
    has_pods.then_some(kind)
}

/// The references of TargetGroupBindings that give the pods of a Service to a load balancer by
/// their own addresses.
fn bindings(service: Object<'_>) -> impl Iterator<Item = Node<'_>> {
    // Without `targetType` the controller looks it up: nodes need a port of the Service there.
    let has_no_node_port = matches!(service.node.text_of("spec.type"), None | Some("ClusterIP"));
    of_kind(service.node.texts, "TargetGroupBinding")
        .filter(move |binding| {
            let targets = binding.node.text_of("spec.targetType");
            binding.is_near(service) && targets.map_or(has_no_node_port, |kind| kind == "ip")
        })
        .filter_map(|binding| binding.node.fields("spec.serviceRef.name"))
        .filter(move |name| name.text() == Some(service.name()))
}

fn too_early<'g>(gate: &Gate, behind: Behind, place: Node<'g>, findings: &mut Findings<'g>) {
    let least = behind.delay();
    let fix = match behind {
        Behind::AwsNlb => "`behind: aws_nlb`",
        Behind::AwsAlb => "`behind: aws_alb`, or `aws_nlb` for a Network Load Balancer,",
    };
    if gate.begin.delay_ms < least.millis() {
        let delay = gate.begin.delay_ms / 1000;
        findings.at(
            place,
            format!(
                "it sends new clients for {least} after the deletion of a pod, and the gate may \
                 end it after {delay} s: write {fix} under `drain` in the policy"
            ),
        );
    }
}

fn cut_before<'g>(gate: &Gate, attributes: Node<'g>, findings: &mut Findings<'g>) {
    let text = attributes.text().unwrap_or_default();
    let seconds = text.split(',').find_map(|word| word.trim().strip_prefix(DEREGISTRATION));
    let Some(seconds) = seconds.and_then(|text| text.parse::<u64>().ok()) else { return };
    let deadline = gate.deadline_ms.div_ceil(1000);
    if seconds < deadline {
        findings.at(
            attributes,
            format!(
                "it ends connections {seconds} s after the deletion, and the gate waits for \
                 streams until {deadline} s: write {deadline} or more"
            ),
        );
    }
}
