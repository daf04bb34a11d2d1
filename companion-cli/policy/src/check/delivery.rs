//! Checks how the module gets into the proxy.

use super::Checker;
use crate::file::{Delivery, FailurePolicy, File, Placement};

impl File {
    /// Whether kubelet mounts the module.
    pub(super) fn is_mounted(&self) -> bool {
        self.delivery == Some(Delivery::ImageVolume)
    }

    /// Whether the module is the path of a file in the proxy.
    pub(super) fn is_local(&self) -> bool {
        self.module.as_deref().is_some_and(|module| !module.contains("://"))
    }
}

impl Checker {
    pub(super) fn delivery(&mut self, file: &File) {
        let is_wrong = |module: &&str| file.is_mounted() && !module.starts_with("oci://");
        if let Some(module) = file.module.as_deref().filter(is_wrong) {
            self.problem(
                "delivery",
                format!(
                    "an image volume needs an image, and `{module}` is none: write `module: \
                        oci://…`, or take it out"
                ),
            );
        }
    }
}

/// Unless the file names one: `Reload` for a local file or an image volume, which is always there;
/// otherwise `Open`, because an unreachable registry must not take a gateway down.
pub(super) fn failure_policy(file: &File, placement: &Placement) -> FailurePolicy {
    // Envoy Gateway's controller fetches the counter in any case.
    let is_there = file.is_local() || file.is_mounted() && !placement.is_envoy_gateway();
    let usual = if is_there { FailurePolicy::Reload } else { FailurePolicy::Open };
    file.failure_policy.unwrap_or(usual)
}
