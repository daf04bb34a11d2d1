//! The life of root contexts and HTTP contexts in the module of the frame filter, without the SDK.
//! The types are named like those of [`crate::lifecycle`], which belong to the other module.

use std::borrow::Cow;
use std::rc::Rc;

use laststream_drain::state::Queue;
use laststream_drain::timing::FIRST_TICK;

use super::shared::Shared;
use super::stream::Socket;
use crate::census::frames::{mark_as_read, remove_frame_filter};
use crate::config::tree::{self, Value};
use crate::config::{Fault, fault};
use crate::host::{Body, BodyHost, Control, Level};
use crate::lifecycle::Flow;
use crate::shared_text::parse_message;

/// A root context: one configuration of the frame filter on one worker.
#[derive(Debug, Default)]
pub struct Root {
    shared: Option<Rc<Shared>>,
}

/// An HTTP context. Its `socket` is none if its frames are not followed.
#[derive(Debug)]
pub struct HttpStream {
    shared: Option<Rc<Shared>>,
    socket: Option<Socket>,
}

impl Root {
    /// A root context that is not configured yet.
    #[must_use]
    pub fn new(_id: u32) -> Self {
        Self::default()
    }

    /// Reads the configuration. False: Envoy rejects it, and the previous one stays active.
    pub fn on_configure(&mut self, host: &impl Control, text: &[u8]) -> bool {
        match check(text) {
            Ok(()) => {
                self.shared.get_or_insert_default();
                // A VM that Envoy creates only to validate a configuration never ticks.
                host.set_tick_period(FIRST_TICK.0 as u32);
                host.log(Level::Info, SUMMARY);
                true
            }
            Err(fault) => {
                host.log(Level::Error, &format!("configuration refused: {}", fault.to_text()));
                false
            }
        }
    }

    /// Creates an HTTP context.
    #[must_use]
    pub fn create_stream(&self, _id: u32) -> HttpStream {
        HttpStream { shared: self.shared.clone(), socket: None }
    }

    /// The tick period has passed.
    pub fn on_tick(&self, host: &impl Control) {
        if let Some(shared) = &self.shared {
            shared.enter(host);
            host.set_tick_period(0);
        }
    }

    /// A gate has sent the time until which it ends streams. Envoy also announces messages on the
    /// queue of a VM that has died, if that had a root context with this number.
    pub fn on_queue_ready(&self, host: &impl Control, queue: u32) {
        if let Some(shared) = &self.shared
            && shared.queue.get() == Some(Queue(queue))
        {
            while let Some(message) = host.dequeue(queue) {
                // The time only grows: a worker's gate may have asked for more than another.
                let until = parse_message(&message);
                shared.ends_until.update(|known| known.max(until));
            }
            mark_as_read(host, Queue(queue));
        }
    }

    /// Envoy destroys the root context, but not its timer.
    pub fn on_delete(&mut self, host: &impl Control) {
        host.set_tick_period(0);
        if let Some(queue) = self.shared.take().and_then(|shared| shared.queue.take()) {
            remove_frame_filter(host, queue);
        }
    }
}

/// Accepts the role and nothing else. The types of the whole configuration would double the size of
/// the module, and accept the same texts.
fn check(text: &[u8]) -> Result<(), Fault> {
    let text = core::str::from_utf8(text).unwrap_or_default();
    match tree::parse(text)? {
        Value::Object(members) if is_role(&members) => Ok(()),
        _ => Err(fault(
            "configuration",
            "must be {\"role\": \"websocket\"}: this module has no other role and no settings",
        )),
    }
}

fn is_role(members: &[(Cow<'_, str>, Value<'_>)]) -> bool {
    matches!(members, [(name, Value::Text(role))] if name == "role" && role == "websocket")
}

const SUMMARY: &str =
    concat!("laststream ", env!("CARGO_PKG_VERSION"), ": follows the frames of WebSockets");

impl HttpStream {
    /// The request headers have arrived.
    pub fn on_request_headers(&mut self, host: &impl Control) -> Flow {
        if let Some(shared) = &self.shared {
            shared.enter(host);
            self.socket = Socket::new(shared, host);
        }
        Flow::Continue
    }

    /// A chunk of a body has arrived.
    pub fn on_body(&mut self, host: &impl BodyHost, body: Body, size: usize, is_last: bool) {
        if let Some(socket) = &mut self.socket
            && !socket.on_body(host, body, size, is_last)
        {
            self.socket = None;
        }
    }

    /// The stream has ended. Nothing is counted, so there is nothing to do.
    pub fn on_delete(&mut self, _host: &impl Control) {}
}
