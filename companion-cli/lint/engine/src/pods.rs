//! Pods and the objects with templates of pods, their proxies' settings, and the hooks of
//! containers. An overlay, which Istio merges over the pods of a Gateway, counts as a pod here,
//! too.

use crate::{Node, Object, Texts, objects};
pub use manifest_text::pods::{DEFAULT_GRACE, ISTIO_PROXY, PROXIES};

/// The path from the spec of a pod to its containers.
pub const CONTAINERS: &str = "containers[]|initContainers[]";
/// The values of Istio's gateway chart, from its values.schema.json of versions 1.27 to 1.31.
const GATEWAY_CHART: &str = "_internal_defaults_do_not_set additionalContainers affinity \
    annotations autoscaling compatibilityVersion containerSecurityContext defaultRevision defaults \
    dnsConfig dnsPolicy env envVarFrom global imagePullPolicy imagePullSecrets \
    initContainers kind labels lifecycle minReadySeconds name networkGateway networkGatewayPorts \
    nodeSelector pilot platform podAnnotations podDisruptionBudget podLabels priorityClassName \
    profile rbac readinessProbe replicaCount resources revision runAsRoot securityContext service \
    serviceAccount strategy terminationGracePeriodSeconds tolerations topologySpreadConstraints \
    unprivilegedPort volumeMounts volumes";
/// The label, formerly an annotation, that asks for a sidecar or forbids one.
const INJECT: &str = "sidecar.istio.io/inject";
/// The kind of an overlay.
const OVERLAY: &str = "ConfigMap";

#[derive(Clone, Copy)]
pub struct Pod<'g> {
    pub object: Object<'g>,
    /// The node with `metadata` and `spec`.
    pub template: Node<'g>,
    pub spec: Node<'g>,
}

impl<'g> Pod<'g> {
    pub fn of(object: Object<'g>) -> Option<Self> {
        let template = Self::template_of(object)?;
        // An overlay may leave the spec as it is.
        let overlay = || Some(template).filter(|_| object.kind == OVERLAY);
        Some(Self { object, template, spec: template.get("spec").or_else(overlay)? })
    }

    /// A patch of a pod that has only metadata, such as annotations.
    fn of_metadata(object: Object<'g>) -> Option<Self> {
        let template = Self::template_of(object)?;
        let is_patch = template.get("spec").is_none() && object.kind != OVERLAY;
        is_patch.then_some(Self { object, template, spec: template })
    }

    fn template_of(object: Object<'g>) -> Option<Node<'g>> {
        Some(match object.kind {
            "Pod" => object.node,
            "Deployment"
            | "StatefulSet"
            | "DaemonSet"
            | "ReplicaSet"
            | "ReplicationController"
            | "Rollout"
            | "Job" => object.node.fields("spec.template")?,
            "CronJob" => object.node.fields("spec.jobTemplate.spec.template")?,
            OVERLAY => overlay_template(object)?,
            _ => return None,
        })
    }

    /// Whether this is an overlay, which Istio merges over the pods of a Gateway.
    pub fn is_overlay(self) -> bool {
        self.object.kind == OVERLAY
    }

    /// The namespace; none if the manifest has none, or if a class's overlay applies to all
    /// namespaces.
    pub fn namespace(self) -> Option<&'g str> {
        self.object.namespace().filter(|_| self.class().is_none())
    }

    /// The class of Gateways that this overlay is the default of.
    pub fn class(self) -> Option<&'g str> {
        let labels = self.object.node.get("metadata")?.get("labels")?;
        labels.get(CLASS_LABEL)?.text().filter(|_| self.is_overlay())
    }

    fn metadata(self, map: &str, key: &str) -> Option<Node<'g>> {
        self.template.get("metadata")?.get(map)?.get(key)
    }

    pub fn label(self, key: &str) -> Option<&'g str> {
        self.metadata("labels", key)?.text()
    }

    pub fn labels(self) -> Vec<(&'g str, &'g str)> {
        let labels = self.template.fields("metadata.labels");
        labels
            .into_iter()
            .flat_map(Node::entries)
            .filter_map(|(key, value)| Some((key, value.text()?)))
            .collect()
    }

    pub fn annotation(self, key: &str) -> Option<Node<'g>> {
        self.metadata("annotations", key)
    }

    /// Whether the object is complete. One without a selector is a patch, which does not show what
    /// else is in the pod.
    pub fn is_whole(self) -> bool {
        match self.object.kind {
            "Pod" => true,
            _ => self.object.spec().is_some_and(|spec| spec.get("selector").is_some()),
        }
    }

    pub fn is_job(self) -> bool {
        matches!(self.object.kind, "Job" | "CronJob")
    }

    /// The proxy's settings in the pod's own annotation.
    pub fn proxy_config(self) -> Option<Node<'g>> {
        self.annotation("proxy.istio.io/config")?.embedded()
    }

    pub fn grace(self) -> Option<Node<'g>> {
        self.spec.get("terminationGracePeriodSeconds")
    }

    /// The pod's containers with the name of Istio's proxy.
    fn proxies(self) -> impl Iterator<Item = Node<'g>> {
        self.proxies_named(&[ISTIO_PROXY])
    }

    /// The pod's containers with one of these names, native sidecars first.
    pub fn proxies_named(self, names: &[&str]) -> impl Iterator<Item = Node<'g>> {
        let containers = self.spec.all("initContainers[]|containers[]");
        containers.filter(|container| container.text_of("name").is_some_and(|n| names.contains(&n)))
    }

    /// Whether the proxy has a stop hook of its own, in place of Istio's.
    pub fn has_own_hook(self) -> bool {
        let mut hooks = self.proxies().filter_map(|proxy| proxy.fields("lifecycle.preStop"));
        hooks.any(|hook| hook.entries().next().is_some())
    }

    /// Whether the pod has a proxy: Istio injects one unless the pod forbids it or uses the network
    /// of its node, or the pod has a proxy container with its own image.
    pub fn has_proxy(self) -> bool {
        let annotation = || self.annotation(INJECT).and_then(Node::text);
        let is_forbidden = self.label(INJECT).or_else(annotation) == Some("false");
        let is_of_node = self.spec.get("hostNetwork").is_some_and(Node::is_true);
        let mut images = self.proxies().filter_map(|proxy| proxy.text_of("image"));
        self.is_overlay() || !(is_forbidden || is_of_node) || images.any(|image| image != "auto")
    }

    /// Whether the pod itself says that it has Istio's proxy.
    pub fn has_sign_of_proxy(self) -> bool {
        let is_asked_for = self.label(INJECT) == Some("true");
        self.has_proxy() && (is_asked_for || self.is_gateway() || self.proxies().next().is_some())
    }

    /// Whether the pod is a gateway, by its injection template or labels; an overlay always is. A
    /// gateway has the proxy as its only container.
    pub fn is_gateway(self) -> bool {
        let template = self.annotation("inject.istio.io/templates").and_then(Node::text);
        let labels = ["istio", "app"].iter().filter_map(|key| self.label(key));
        self.is_overlay()
            || template.is_some_and(|name| name.contains("gateway"))
            || labels
                .into_iter()
                .any(|label| label.contains("ingressgateway") || label.contains("egressgateway"))
            || self.label("gateway.networking.k8s.io/gateway-name").is_some()
    }
}

/// Whether Istio's gateway chart has this value.
pub fn is_gateway_chart_key(key: &str) -> bool {
    GATEWAY_CHART.split(' ').any(|own| own == key)
}

/// The template for pods in the Deployment of an overlay.
pub fn overlay_template(overlay: Object<'_>) -> Option<Node<'_>> {
    overlay.node.fields("data.deployment")?.embedded()?.fields("spec.template")
}

/// The label of a ConfigMap that is the default of a class of Gateways.
pub const CLASS_LABEL: &str = "gateway.istio.io/defaults-for-class";

pub fn pods(texts: &Texts) -> impl Iterator<Item = Pod<'_>> {
    objects(texts).filter_map(Pod::of)
}

/// The patches of pods that leave the spec as it is.
pub fn metadata_patches(texts: &Texts) -> impl Iterator<Item = Pod<'_>> {
    objects(texts).filter_map(Pod::of_metadata)
}

/// The pod around a node, even if the node is in the text of an annotation.
pub fn pod_around(node: Node<'_>) -> Option<Pod<'_>> {
    node.outwards().filter_map(Object::new).find_map(Pod::of)
}

#[derive(Clone, Copy)]
pub struct Hook<'g> {
    /// The value of `preStop` or `postStart`.
    pub node: Node<'g>,
}

impl<'g> Hook<'g> {
    /// The words of the command, also those within a shell's argument.
    pub fn words(self) -> Vec<&'g str> {
        let command = self.node.list("exec.command").filter_map(Node::text);
        command.flat_map(str::split_whitespace).collect()
    }

    pub fn command(self) -> Option<Node<'g>> {
        self.node.get("exec")?.get("command")
    }

    /// The item of the command that contains `part`.
    pub fn item_with(self, part: &str) -> Option<Node<'g>> {
        self.command()?.items().find(|item| item.text().is_some_and(|text| text.contains(part)))
    }

    /// The value of an option, as `--name=value` or `--name value`.
    pub fn option(self, name: &str) -> Option<&'g str> {
        let words = self.words();
        let at = words.iter().position(|word| {
            word.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        })?;
        let word = words.get(at)?;
        word.split_once('=').map(|(_, value)| value).or_else(|| words.get(at + 1).copied())
    }

    /// Whether the hook runs `pilot-agent` with this command.
    pub fn runs_agent(self, command: &str) -> bool {
        let words = self.words();
        words.windows(2).any(|pair| pair[0].ends_with("pilot-agent") && pair[1] == command)
    }

    fn container(self) -> Option<Node<'g>> {
        self.node.parent()?.parent()
    }

    /// Whether the hook belongs to a proxy: in a pod, or in Helm values from which Istio takes a
    /// proxy's hooks.
    pub fn is_proxys(self) -> bool {
        let Some(lifecycle) =
            self.node.parent().filter(|node| node.key_text() == Some("lifecycle"))
        else {
            return false;
        };
        match self.container().and_then(|container| container.text_of("name")) {
            Some(name) => name == ISTIO_PROXY,
            // Helm values of the mesh, or of the gateway chart. Values in Argo CD's objects may be
            // those of any chart.
            None => {
                let top = lifecycle.parent().filter(|parent| parent.parent().is_none());
                let of_argo = |text: Node<'g>| text.has_keys(&["values", "helm"]);
                lifecycle.has_keys(&["lifecycle", "proxy", "global"])
                    || top.is_some_and(|top| {
                        !top.carrier().is_some_and(of_argo)
                            && top.entries().all(|(key, _)| is_gateway_chart_key(key))
                    })
            }
        }
    }

    /// The grace period beside `lifecycle` in the values of a chart.
    pub fn grace_in_values(self) -> Option<Node<'g>> {
        self.container()?.get("terminationGracePeriodSeconds")
    }

    pub fn pod(self) -> Option<Pod<'g>> {
        pod_around(self.node)
    }
}

/// The stop hooks of all containers, wherever they are written.
pub fn stop_hooks(texts: &Texts) -> impl Iterator<Item = Hook<'_>> {
    texts.keyed("preStop").map(|node| Hook { node })
}

/// The hooks of all containers, wherever they are written.
pub fn hooks(texts: &Texts) -> impl Iterator<Item = Hook<'_>> {
    stop_hooks(texts).chain(texts.keyed("postStart").map(|node| Hook { node }))
}
