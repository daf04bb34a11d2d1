//! Checks the profile, and the limit of silent streams.

use super::site::Site;
use super::{Checker, gate};
use crate::file::File;

impl Checker {
    pub(super) fn profile(&mut self, file: &File, site: Site<'_>) {
        if file.profile.is_some() && !site.has_gate {
            let delivery = file.delivery.unwrap_or_default();
            let why = gate::why_none(site.placement, delivery, file.module.as_deref());
            let why = why.unwrap_or("leave `gate: {enabled: false}` out");
            self.problem(
                "profile",
                format!("is for drains that a gate holds, and there is none: {why}"),
            );
        }
        if file.stream_idle.is_some() && !site.placement.limits_silence() {
            self.problem("stream_idle", "istiod lets streams be silent for ever: take it out");
        }
    }
}
