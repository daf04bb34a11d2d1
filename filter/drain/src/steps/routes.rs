//! The routes that refuse new requests, for a gate that counts by Envoy: they let requests pass
//! again as soon as nobody holds the latch.

use super::apply::Apply;
use crate::requests::{Call, Level};
use crate::state::{CallEnd, Moment};

impl Apply<'_, '_, '_> {
    /// Tells Envoy that requests pass, if nobody holds the latch and no other worker tells it.
    pub(crate) fn open_routes(&mut self) {
        let (latch, now) = (self.callback.facts.latch, self.callback.now());
        let is_held = latch.is_sealed || latch.is_held || latch.is_taken;
        let is_due = self.callback.shared.routes.is_due(now, self.policy.patience);
        if self.policy.by_envoy && is_due && !is_held {
            self.callback.shared.routes.tell(now);
            self.callback.call(Call::Routes { refuse: false, told: now });
        }
    }

    pub(super) fn routes_have_answered(&mut self, told: Moment, end: CallEnd) {
        let had_failed = self.callback.shared.routes.has_failed;
        self.callback.shared.routes.have_answered(told, end);
        if self.callback.shared.routes.has_failed && !had_failed {
            self.callback.log(Level::Warning, "Envoy's runtime cannot be told to refuse requests");
        }
    }
}
