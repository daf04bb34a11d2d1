//! The Gateways whose Deployments an overlay is merged over, as far as the files show.

use crate::{Object, Pod, users};

pub struct Overlaid<'g> {
    pub namespace: Option<&'g str>,
    /// The class of Gateways that the overlay is the default of.
    class: Option<&'g str>,
    /// Name and class of the Gateways that name the overlay.
    gateways: Vec<(&'g str, &'g str)>,
}

impl<'g> Overlaid<'g> {
    pub fn by(overlay: Pod<'g>) -> Self {
        let gateways = users(overlay.object);
        let gateways = gateways.map(|gateway| (gateway.name(), gateway.gateway_class()));
        Self {
            namespace: overlay.namespace(),
            class: overlay.class(),
            gateways: gateways.collect(),
        }
    }

    /// The one Gateway itself, without an overlay.
    pub fn of_gateway(gateway: Object<'g>) -> Self {
        let gateways = vec![(gateway.name(), gateway.gateway_class())];
        Self { namespace: gateway.namespace(), class: None, gateways }
    }

    fn is_unknown(&self) -> bool {
        self.class.is_none() && self.gateways.is_empty()
    }

    /// Whether Istio may merge both overlays over the Deployment of one Gateway.
    pub fn may_share_gateway(&self, other: &Self) -> bool {
        let has = |one: &Self, two: &Self| {
            one.class.is_some_and(|class| two.class.is_none() && two.may_be_of(class))
        };
        let shared = self
            .gateways
            .iter()
            .any(|(name, _)| other.gateways.iter().any(|(theirs, _)| theirs == name));
        has(self, other) || has(other, self) || shared
    }

    /// Whether one of the Gateways may have this name.
    pub fn may_be_named(&self, name: &str) -> bool {
        self.class.is_some()
            || self.is_unknown()
            || self.gateways.iter().any(|(own, _)| *own == name)
    }

    /// Whether one of the Gateways may be of this class.
    pub fn may_be_of(&self, class: &str) -> bool {
        self.is_unknown()
            || self.class == Some(class)
            || self.gateways.iter().any(|(_, own)| *own == class)
    }
}
