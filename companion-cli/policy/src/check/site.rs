//! The site of the policy's proxies, and the defaults of each placement.

use crate::file::{Begin, Finish, Placement};
use crate::sizing::Usual;

/// The placement of the proxies, and whether they have a gate.
#[derive(Clone, Copy)]
pub(super) struct Site<'p> {
    pub(super) placement: &'p Placement,
    pub(super) has_gate: bool,
}

impl Site<'_> {
    pub(super) fn usual_times(self) -> Usual {
        match self.placement {
            Placement::EnvoyGateway(_) if self.has_gate => Usual::ENVOY_GATEWAY,
            Placement::EnvoyGateway(_) | Placement::Envoy(_) => Usual::ENVOY,
            _ => Usual::ISTIO,
        }
    }
}

impl Placement {
    pub(super) fn is_envoy_gateway(&self) -> bool {
        matches!(self, Self::EnvoyGateway(_))
    }

    pub fn is_istio(&self) -> bool {
        !matches!(self, Self::EnvoyGateway(_) | Self::Envoy(_))
    }

    /// Whether Envoy ends streams that are silent; istiod switches that off.
    pub(crate) fn limits_silence(&self) -> bool {
        !self.is_istio()
    }

    pub(super) fn has_app(&self) -> bool {
        matches!(self, Self::Sidecar(_) | Self::Envoy(_))
    }

    pub(super) fn usual_begin(&self) -> Begin {
        if self.is_envoy_gateway() { Begin::FailHealthChecks } else { Begin::DrainListeners }
    }

    pub(super) fn usual_finish(&self) -> Finish {
        if self.is_istio() { Finish::DrainAgent } else { Finish::Nothing }
    }
}
