//! The last query to the app.

use crate::state::{App, Moment};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct AppQuery {
    pub(crate) asked_at: Moment,
    pub(crate) is_running: bool,
    reply: Option<(Moment, App)>,
}

impl AppQuery {
    pub(crate) fn ask(&mut self, now: Moment) {
        (self.asked_at, self.is_running) = (now, true);
    }

    pub(super) fn has_answered(&mut self, state: App) {
        self.is_running = false;
        self.reply = Some((self.asked_at, state));
    }

    /// The last answer, and the time of its query. An answer from before this drain is not an
    /// answer about it.
    pub(crate) fn reply_since(&self, began: Moment) -> Option<(Moment, App)> {
        self.reply.filter(|(asked_at, _)| *asked_at >= began)
    }
}
