//! The Gateways whose Deployments an overlay is merged over, as far as the files tell.

use super::node::Node;
use super::objects::of_kind;
use super::pods::Pod;
use super::texts::Texts;

/// Istio's class of waypoints.
pub(super) const WAYPOINTS: &str = "istio-waypoint";

/// The Gateways of an overlay.
pub(super) struct Overlaid<'g> {
    pub(super) namespace: Option<&'g str>,
    /// The class whose default it is.
    class: Option<&'g str>,
    /// Name and class of the Gateways that name it.
    gateways: Vec<(&'g str, &'g str)>,
}

impl<'g> Overlaid<'g> {
    pub(super) fn by(texts: &'g Texts, overlay: Pod<'g>) -> Self {
        let own = overlay.object;
        let gateways = of_kind(texts, "Gateway").filter_map(|gateway| {
            let spec = gateway.spec()?;
            let parameters = spec.get("infrastructure")?.get("parametersRef")?;
            let text = |node: Node<'g>, key| node.get(key).and_then(Node::text);
            let is_named = text(parameters, "name") == Some(own.name())
                && text(parameters, "kind") == Some("ConfigMap");
            let spaces = gateway.namespace().zip(own.namespace());
            let together = spaces.is_none_or(|(one, two)| one == two);
            let class = text(spec, "gatewayClassName").unwrap_or_default();
            (is_named && together).then_some((gateway.name(), class))
        });
        Self {
            namespace: overlay.namespace(),
            class: overlay.class(),
            gateways: gateways.collect(),
        }
    }

    fn is_unknown(&self) -> bool {
        self.class.is_none() && self.gateways.is_empty()
    }

    /// Whether one of them may have this name.
    pub(super) fn may_be_named(&self, name: &str) -> bool {
        self.class.is_some()
            || self.is_unknown()
            || self.gateways.iter().any(|(own, _)| *own == name)
    }

    /// Whether one of them may be of this class.
    pub(super) fn may_be_of(&self, class: &str) -> bool {
        self.is_unknown()
            || self.class == Some(class)
            || self.gateways.iter().any(|(_, own)| *own == class)
    }
}
