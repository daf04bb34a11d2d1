//! Checks what the listing of streams shows: a filter of Envoy writes it, in front of the module.

use super::site::Site;
use super::{Checker, OF_THE_GATE};
use crate::file::{Placement, Show, Streams};

impl Checker {
    pub(super) fn streams(&mut self, streams: Streams, site: Site<'_>) {
        if streams.show == Show::Nothing {
            return;
        }
        match site.placement {
            Placement::Waypoint(_) => self.problem(
                "streams.show",
                "needs a filter of Envoy in front of the module, and a waypoint takes WasmPlugins \
                    only: take it out",
            ),
            Placement::EnvoyGateway(_) => self.problem(
                "streams.show",
                "needs Envoy's `set_filter_state` filter in front of the module, and no resource \
                    of Envoy Gateway has it: take it out",
            ),
            _ if !site.has_gate => self.problem("streams", OF_THE_GATE),
            _ => {}
        }
    }
}
