//! Kubernetes objects, and the targets that policies share.

use crate::index::{Index, Place};
use crate::template::variable;
use crate::{Node, Texts};

/// The namespace whose resources apply to the whole mesh, unless it was renamed.
pub const ROOT_NAMESPACE: &str = "istio-system";

#[derive(Clone, Copy)]
pub struct Object<'g> {
    pub node: Node<'g>,
    pub kind: &'g str,
}

impl<'g> Object<'g> {
    pub fn new(node: Node<'g>) -> Option<Self> {
        let own = node.get("kind").and_then(Node::text);
        Some(Self { node, kind: own.or_else(|| list_of(node)?.0.strip_suffix(LIST))? })
    }

    pub fn api_version(self) -> &'g str {
        let of_list = || list_of(self.node)?.1.text_of("apiVersion");
        self.node.text_of("apiVersion").or_else(of_list).unwrap_or_default()
    }

    pub fn spec(self) -> Option<Node<'g>> {
        self.node.get("spec")
    }

    /// The API group; empty for the group without a name.
    pub fn group(self) -> &'g str {
        self.api_version().split_once('/').map_or("", |(group, _)| group)
    }

    pub fn name(self) -> &'g str {
        self.node.text_of("metadata.name").unwrap_or_default()
    }

    /// The namespace; none if the manifest leaves it to `kubectl -n`, kustomize or a variable.
    pub fn namespace(self) -> Option<&'g str> {
        self.node.text_of("metadata.namespace").filter(|name| variable(name).is_none())
    }

    /// The revision of Istio that reads the object; none if the object names none.
    pub fn revision(self) -> Option<&'g str> {
        self.node.fields("metadata.labels")?.get("istio.io/rev")?.text()
    }

    /// The labels of the proxies that the object selects; none means all.
    pub fn selector(self) -> Option<Node<'g>> {
        let labels = self.spec()?.fields("workloadSelector.labels")?;
        labels.entries().next().map(|_| labels)
    }

    /// Whether two policies of Envoy Gateway may target one Gateway, judged by namespaces and by
    /// the names of their targets.
    pub fn may_share_target(self, other: Self) -> bool {
        let others = other.gateways().unwrap_or_default();
        self.may_target_one_of(&others) && self.is_near(other)
    }

    /// Whether both may be in one namespace.
    pub fn is_near(self, other: Self) -> bool {
        near(self.namespace(), other.namespace())
    }

    /// The name of the object of this kind that a Gateway takes its parameters from.
    pub fn parameters(self, kind: &str) -> Option<&'g str> {
        self.parameters_ref().filter(|(own, _)| *own == kind).map(|(_, name)| name)
    }

    /// The kind and name of the object that a Gateway takes its parameters from.
    pub fn parameters_ref(self) -> Option<(&'g str, &'g str)> {
        let reference = self.node.fields("spec.infrastructure.parametersRef")?;
        Some((reference.text_of("kind")?, reference.text_of("name")?))
    }

    /// The class of a Gateway; empty without one.
    pub fn gateway_class(self) -> &'g str {
        self.node.text_of("spec.gatewayClassName").unwrap_or_default()
    }

    /// Whether a policy may target one of these Gateways; true if the Gateways, or the policy's own
    /// targets, are unknown.
    pub fn may_target_one_of(self, gateways: &[&str]) -> bool {
        let own = self.gateways();
        gateways.is_empty() || own.is_none_or(|own| own.iter().any(|name| gateways.contains(name)))
    }

    /// The names of the Gateways that a policy of Envoy Gateway targets; none if it has other
    /// targets.
    fn gateways(self) -> Option<Vec<&'g str>> {
        let targets = self.targets_and_selectors();
        let names: Option<Vec<_>> = targets.map(|target| referred(target, "Gateway")).collect();
        names.filter(|names| !names.is_empty())
    }

    /// The targets of a policy, from `targetRefs` and `targetRef`. An EnvoyFilter has no
    /// `targetRef`: the API server drops it, and the filter is for every proxy.
    pub fn policy_targets(self) -> impl Iterator<Item = Node<'g>> {
        let is_filter = self.kind == "EnvoyFilter";
        self.node.all(if is_filter { "spec.targetRefs[]" } else { "spec.targetRefs[]|targetRef" })
    }

    /// The targets of a policy of Envoy Gateway, also those that it selects by labels.
    pub fn targets_and_selectors(self) -> impl Iterator<Item = Node<'g>> {
        self.node.all("spec.targetRefs[]|targetRef|targetSelectors[]")
    }
}

/// How the kinds of lists end.
const LIST: &str = "List";

/// The list that an item is in, and its kind. Items of a list of one kind, such as a GatewayList,
/// do not say their own.
fn list_of(item: Node<'_>) -> Option<(&str, Node<'_>)> {
    let items = item.parent().filter(|items| items.key_text() == Some("items"))?;
    let list = items.parent()?;
    list.text_of("kind").filter(|kind| kind.ends_with(LIST)).map(|kind| (kind, list))
}

/// The name in a reference, if the reference is to an object of this kind.
pub fn referred<'g>(reference: Node<'g>, kind: &str) -> Option<&'g str> {
    reference.text_of("name").filter(|_| reference.text_of("kind") == Some(kind))
}

/// The index of all objects.
pub(crate) fn index_of(texts: &Texts) -> Index {
    let mut index = Index::default();
    for object in texts.documents().flat_map(items_within).filter_map(Object::new) {
        let place = (object.node.tree, object.node.id);
        index.add((object.kind, object.name()), place);
        let parameters = object.parameters_ref().filter(|_| object.kind == "Gateway");
        parameters.into_iter().for_each(|parameters| index.add_user(parameters, place));
    }
    index
}

/// The object itself, or the items of a List, which may be Lists again. An alias is not opened,
/// because a few lines of aliases can stand for millions of items.
fn items_within(node: Node<'_>) -> Vec<Node<'_>> {
    let is_list = node.text_of("kind").is_some_and(|kind| kind.ends_with(LIST));
    let is_opened = is_list && !node.is_alias() && !node.get("items").is_some_and(Node::is_alias);
    let items: Vec<_> = node.list("items").filter(|_| is_opened).collect();
    if items.is_empty() { vec![node] } else { items.into_iter().flat_map(items_within).collect() }
}

fn at<'g>(texts: &'g Texts, places: &'g [Place]) -> impl Iterator<Item = Object<'g>> {
    places.iter().filter_map(|(tree, id)| Object::new(texts.node(*tree, *id)))
}

pub fn objects(texts: &Texts) -> impl Iterator<Item = Object<'_>> {
    at(texts, texts.objects.all())
}

pub fn of_kind<'g>(texts: &'g Texts, kind: &str) -> impl Iterator<Item = Object<'g>> {
    at(texts, texts.objects.of_kind(kind))
}

pub fn named<'g>(texts: &'g Texts, kind: &str, name: &str) -> impl Iterator<Item = Object<'g>> {
    at(texts, texts.objects.named(kind, name))
}

/// The objects of this kind and name that may be in the namespace of another one.
pub fn beside<'g>(other: Object<'g>, kind: &str, name: &str) -> impl Iterator<Item = Object<'g>> {
    named(other.node.texts, kind, name).filter(move |object| object.is_near(other))
}

/// The Gateways of one object that are looked at. Copies of one folder have objects of one name.
const MOST_USERS: usize = 32;

/// The Gateways that take their parameters from an object and may be in its namespace.
pub fn users(parameters: Object<'_>) -> impl Iterator<Item = Object<'_>> {
    let texts = parameters.node.texts;
    let users = at(texts, texts.objects.users(parameters.kind, parameters.name()));
    users.filter(move |gateway| gateway.is_near(parameters)).take(MOST_USERS)
}

/// The policies of Envoy Gateway that say how the client's address is detected, with the field that
/// says it.
pub fn ip_detections(texts: &Texts) -> impl Iterator<Item = (Object<'_>, Node<'_>)> {
    of_kind(texts, "ClientTrafficPolicy")
        .filter_map(|policy| Some((policy, policy.spec()?.get("clientIPDetection")?)))
}

/// Whether two namespaces may be the same one. One that is not written may be any.
pub fn near(one: Option<&str>, two: Option<&str>) -> bool {
    one.zip(two).is_none_or(|(one, two)| one == two)
}

pub fn object_of(node: Node<'_>) -> Option<Object<'_>> {
    let is_object = |node: &Node<'_>| node.get("apiVersion").is_some() || list_of(*node).is_some();
    node.upwards().filter(is_object).find_map(Object::new)
}
