//! Checks what a gate in Envoy Gateway's proxies needs: the module as a file of the pod, and a
//! program for the stop hook.

use super::Checker;
use crate::file::{File, GateSecret};
use laststream_base::env_vars::LASTSTREAM_SECRET;

impl Checker {
    pub(super) fn hook_of_envoy_gateway(&mut self, file: &File, has_gate: bool) {
        match (has_gate, file.program_image.is_some()) {
            (true, false) => self.problem(
                "program_image",
                "is required for the gate's stop hook, because Envoy Gateway's proxies have no \
                    program for it: write an image with laststream's static program, or take \
                    `delivery` out, and there is no gate",
            ),
            (false, true) => self.problem(
                "program_image",
                "is for the gate's stop hook, and there is no gate without `delivery: \
                    image_volume`",
            ),
            _ => {}
        }
        match file.gate.secret.as_ref().filter(|_| has_gate) {
            Some(GateSecret::Environment(name)) if name != LASTSTREAM_SECRET => self.problem(
                "gate.secret.environment",
                format!("is not what the stop hook reads: write `{LASTSTREAM_SECRET}`"),
            ),
            Some(GateSecret::Sds(_)) => self.problem(
                "gate.secret.sds",
                format!(
                    "cannot be read by the stop hook here: write `environment: \
                        {LASTSTREAM_SECRET}`"
                ),
            ),
            _ => {}
        }
    }

    /// A field without effect is an error.
    pub(super) fn module_of_envoy_gateway(&mut self, file: &File, has_gate: bool) {
        if file.is_mounted() && !has_gate {
            self.problem(
                "delivery",
                "is the gate's here, and there is none: take it out. Envoy Gateway's controller \
                    fetches the module that counts",
            );
        }
    }
}
