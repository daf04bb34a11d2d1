//! EnvoyFilters and their patches.

use crate::{Node, Object, Texts, of_kind};

#[derive(Clone, Copy)]
pub struct Patch<'g> {
    pub filter: Object<'g>,
    /// The item of `configPatches`.
    pub node: Node<'g>,
}

impl<'g> Patch<'g> {
    /// All patches of an EnvoyFilter.
    pub fn all_of(filter: Object<'g>) -> impl Iterator<Item = Self> {
        filter.node.list("spec.configPatches").map(move |node| Self { filter, node })
    }

    pub fn apply_to(self) -> &'g str {
        self.node.text_of("applyTo").unwrap_or_default()
    }

    pub fn matching(self) -> Option<Node<'g>> {
        self.node.get("match")
    }

    pub fn context_node(self) -> Option<Node<'g>> {
        self.matching()?.get("context")
    }

    /// The context; `ANY` if the match has none.
    pub fn context(self) -> &'g str {
        self.context_node().and_then(Node::text).unwrap_or("ANY")
    }

    pub fn operation_node(self) -> Option<Node<'g>> {
        self.node.get("patch")?.get("operation")
    }

    pub fn operation(self) -> &'g str {
        self.operation_node().and_then(Node::text).unwrap_or_default()
    }

    pub fn value(self) -> Option<Node<'g>> {
        self.node.get("patch")?.get("value")
    }

    pub fn proxy_version(self) -> Option<Node<'g>> {
        self.matching()?.get("proxy")?.get("proxyVersion")
    }

    /// The match for filters in a chain of the listener.
    pub fn filter_match(self) -> Option<Node<'g>> {
        self.matching()?.get("listener")?.get("filterChain")?.get("filter")
    }

    /// The name of an HTTP filter in that match.
    pub fn sub_filter(self) -> Option<Node<'g>> {
        self.filter_match()?.fields("subFilter.name")
    }

    /// Whether the listeners of one proxy may get both patches.
    pub fn contexts_meet(self, other: Self) -> bool {
        let kind = |patch: Self| match patch.context() {
            "GATEWAY" => Some("gateway"),
            "WAYPOINT" => Some("waypoint"),
            context if context.starts_with("SIDECAR") => Some("sidecar"),
            _ => None,
        };
        kind(self).zip(kind(other)).is_none_or(|(one, two)| one == two)
    }
}

pub fn envoy_filters(texts: &Texts) -> impl Iterator<Item = Object<'_>> {
    of_kind(texts, "EnvoyFilter")
}

pub fn patches(texts: &Texts) -> impl Iterator<Item = Patch<'_>> {
    envoy_filters(texts).flat_map(Patch::all_of)
}

/// The patches with this `applyTo`.
pub fn patches_of<'g>(texts: &'g Texts, apply_to: &'static str) -> impl Iterator<Item = Patch<'g>> {
    patches(texts).filter(move |patch| patch.apply_to() == apply_to)
}

pub fn patch_of(node: Node<'_>) -> Option<Patch<'_>> {
    let item = node
        .upwards()
        .find(|node| node.parent().is_some_and(|list| list.key_text() == Some("configPatches")))?;
    let filter = item.upwards().find(|node| node.text_of("kind") == Some("EnvoyFilter"))?;
    Some(Patch { filter: Object::new(filter)?, node: item })
}
