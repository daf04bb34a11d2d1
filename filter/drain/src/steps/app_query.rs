//! The last query to the app.

use super::turn::Turn;
use crate::state::{App, AppReply, Moment};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct AppQuery {
    pub(crate) asked_at: Moment,
    pub(crate) is_running: bool,
}

impl AppQuery {
    pub(crate) fn ask(&mut self, now: Moment) {
        (self.asked_at, self.is_running) = (now, true);
    }

    /// Shares the answer.
    pub(super) fn has_answered(&mut self, state: App, turn: &mut Turn<'_>) {
        self.is_running = false;
        turn.shared.app = Some(AppReply { asked_at: self.asked_at, state });
    }
}
