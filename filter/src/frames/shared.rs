//! The state that the streams of a root context share in the module of the frame filter.

use core::cell::Cell;

use laststream_drain::state::{Moment, Queue};

use crate::census::frames::register_frame_filter;
use crate::host::{Body, Control, Level};

/// The state that the streams of a root context share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) queue: Cell<Option<Queue>>,
    /// The time until which a counter may ask for the end of a stream.
    pub(super) ends_until: Cell<Option<Moment>>,
    has_warned: Cell<bool>,
}

impl Shared {
    pub(super) fn enter(&self, host: &impl Control) {
        if self.queue.get().is_none() {
            self.queue.set(register_frame_filter(host));
        }
    }

    /// The time while streams are being ended, otherwise none. At other times no chunk reads the
    /// clock.
    pub(super) fn time_if_ends_go_on(&self, host: &impl Control) -> Option<Moment> {
        let until = self.ends_until.get()?;
        let now = host.monotonic_time();
        self.ends_until.set(Some(until).filter(|until| now < *until));
        self.ends_until.get().map(|_| now)
    }

    /// Logs once that a WebSocket cannot be followed; a line for each would not help.
    #[cold]
    pub(super) fn warn_of_garbage(&self, host: &impl Control, body: Body) {
        if !self.has_warned.replace(true) {
            let from = match body {
                Body::Request => "the client",
                Body::Response => "the upstream",
            };
            let line = format!(
                "what {from} sends after the upgrade is not made of WebSocket frames: such streams \
                 are left as they are, and are reset at their end"
            );
            host.log(Level::Warning, &line);
        }
    }
}
