//! Checks how the module and the program get into the proxy.

use super::Checker;
use crate::file::{Delivery, FailurePolicy, Placement};

impl Checker {
    pub(super) fn delivery(&mut self, delivery: Delivery, module: Option<&str>) {
        let no_image = module.filter(|module| !module.starts_with("oci://"));
        if let (Delivery::ImageVolume, Some(module)) = (delivery, no_image) {
            self.problem(
                "delivery",
                format!(
                    "an image volume needs an image, and `{module}` is none: write `module: \
                        oci://…`, or take it out"
                ),
            );
        }
    }

    pub(super) fn program_image(&mut self, image: Option<&str>, placement: &Placement) {
        let Some(image) = image else { return };
        self.image("program_image", image);
        if !matches!(placement, Placement::EnvoyGateway(_) | Placement::Envoy(_)) {
            self.problem(
                "program_image",
                "is for proxies without Istio's agent, which is the stop hook here: take it out",
            );
        }
    }
}

/// `Reload` for a local file or an image volume, which is always there; otherwise `Open`, because
/// an unreachable registry must not take a gateway down.
pub(super) fn usual_failure_policy(delivery: Delivery, module: Option<&str>) -> FailurePolicy {
    let is_file = module.is_some_and(|module| !module.contains("://"));
    if is_file || delivery == Delivery::ImageVolume {
        FailurePolicy::Reload
    } else {
        FailurePolicy::Open
    }
}
