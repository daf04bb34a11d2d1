//! The caller's assumptions about the mesh.

use crate::crds::Definitions;
use crate::upgrade::{self, Step};
use manifest_text::versions;

/// The caller's assumptions about the mesh, and the rules that it ignores.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Assume {
    /// Istio's version: major and minor. The patch version does not matter.
    pub istio: Option<(u32, u32)>,
    /// The version of the Gateway API's CRDs: major and minor.
    pub gateway_api: Option<(u32, u32)>,
    /// Kubernetes' version: major and minor.
    pub kubernetes: Option<(u32, u32)>,
    pub crds: Definitions,
    /// The steps whose changes are judged, instead of the files as they are.
    pub upgrade: Vec<Step>,
    /// Codes of rules that are not evaluated, so that they also hide no verdict of the API server.
    pub ignored: Vec<&'static str>,
}

impl Assume {
    /// The version of the project that has this API group.
    pub fn release_of(&self, group: &str) -> Option<(u32, u32)> {
        match group {
            _ if group.ends_with("istio.io") => self.istio,
            _ if group.starts_with("gateway.networking.") => self.gateway_api,
            _ => None,
        }
    }

    /// Judges these steps. Istio and Kubernetes have the version that they lead to, and Istio is at
    /// least the oldest one that is known.
    #[must_use]
    pub fn with_upgrade(mut self, steps: Vec<Step>) -> Self {
        let to = |name: &str| steps.iter().find(|step| step.program == name).map(|step| step.to);
        if !steps.is_empty() {
            self.istio = self.istio.or(to(upgrade::ISTIO)).or(Some(versions::ISTIO.oldest));
            self.kubernetes = self.kubernetes.or(to(upgrade::KUBERNETES));
        }
        Self { upgrade: steps, ..self }
    }
}
