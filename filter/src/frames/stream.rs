//! One stream of a route with the frame filter: a WebSocket is followed in both directions, and
//! ended between two frames if a counter asks for it.

use std::rc::Rc;

use laststream_drain::state::Moment;

use super::follower::{Follower, Position, Writer};
use super::shared::Shared;
use crate::census::frames::{CLOSE, FRAMES};
use crate::headers::Headers;
use crate::host::{Body, BodyHost, Control};
use crate::parse::digits;

/// The most bytes of a chunk that are read at once. The rest of a longer frame is skipped unread.
const WINDOW: usize = 4096;

/// Status 1001, going away. The client's frames are masked with zeros, which change nothing.
const CLOSE_OF_SERVER: &[u8] = &[0x88, 2, 0x03, 0xe9];
const CLOSE_OF_CLIENT: &[u8] = &[0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe9];
const PING_OF_CLIENT: &[u8] = &[0x89, 0x80, 0, 0, 0, 0];

/// A WebSocket, after its request headers.
#[derive(Debug)]
pub(super) struct Socket {
    shared: Rc<Shared>,
    request: Follower,
    response: Follower,
    /// The upstream has agreed to the upgrade, so both bodies are made of frames.
    is_open: bool,
    /// The value of [`CLOSE`]. None until a counter asks for the end of the stream.
    patient_until: Option<Moment>,
    has_pinged: bool,
    /// The response has a close frame of the filter. What the app sends after it is dropped.
    response_is_closed: bool,
}

impl Socket {
    /// None if the request is not a WebSocket upgrade. Envoy also shows the extended CONNECT of
    /// HTTP/2 and HTTP/3 as such an upgrade.
    pub(super) fn new(shared: &Rc<Shared>, host: &impl Control) -> Option<Self> {
        let map = host.request_headers();
        let upgrade = Headers::new(&map).first("upgrade")?;
        if !upgrade.eq_ignore_ascii_case(b"websocket") {
            return None;
        }
        host.set_property(FRAMES, b"1");
        Some(Self {
            shared: Rc::clone(shared),
            request: Follower::new(Writer::Client),
            response: Follower::new(Writer::Server),
            is_open: false,
            patient_until: None,
            has_pinged: false,
            response_is_closed: false,
        })
    }

    /// A chunk has arrived. False: the filter can no longer follow the stream.
    pub(super) fn on_body(
        &mut self,
        host: &impl BodyHost,
        body: Body,
        size: usize,
        is_last: bool,
    ) -> bool {
        if self.response_is_closed && body == Body::Response {
            host.replace_body(body, &[]);
            return true;
        }
        if size == 0 && !is_last {
            return true;
        }
        if body == Body::Response && !self.has_opened(host) {
            return false;
        }
        let is_late = self.is_late(host);
        let follower = match body {
            Body::Request => &mut self.request,
            Body::Response => &mut self.response,
        };
        let place = Self::follow(follower, host, body, size, is_late == Some(true));
        if follower.position() == Position::Garbage {
            self.shared.warn_of_garbage(host, body);
            // Nothing may follow a close frame of the filter, so a response that has one stays cut.
            return self.response_is_closed;
        }
        if let (Some(place), Some(_)) = (place, is_late)
            && !self.is_closing()
            && self.has_opened(host)
        {
            if body == Body::Response || is_last {
                self.write_close(host, body, place);
            } else if !self.response_is_closed && !self.has_pinged {
                self.ping_app(host, place, size);
            }
        }
        true
    }

    /// Whether the upgrade was accepted. Until then, and after a refusal, the bodies are not those
    /// of a WebSocket.
    fn has_opened(&mut self, host: &impl Control) -> bool {
        self.is_open = self.is_open || response_code(host) == Some(SWITCHING_PROTOCOLS);
        self.is_open
    }

    /// None if no counter has asked for the end of the stream; otherwise whether half of the grace
    /// period is over. Then the filter also writes between two fragments of a message.
    fn is_late(&mut self, host: &impl Control) -> Option<bool> {
        if let Some(until) = self.patient_until {
            return Some(host.monotonic_time() >= until);
        }
        let now = self.shared.time_if_ends_go_on(host)?;
        let until = Moment(digits(&host.property(CLOSE)?)?);
        self.patient_until = Some(until);
        Some(now >= until)
    }

    /// Whether the client or the server has begun to close. Each answers the other's close frame,
    /// so one of the filter would be a second one in its direction, which RFC 6455 forbids.
    fn is_closing(&self) -> bool {
        self.request.is_closing() || self.response.is_closing()
    }

    /// Writes a close frame in place of the rest of the chunk. The client gets one, and the app
    /// gets the client's answer; it gets one of the filter only if the client sends no more. An app
    /// that got one earlier would close its connection, and Envoy the client's: what the client is
    /// sending then, its answer too, would be met by a reset.
    fn write_close(&mut self, host: &impl BodyHost, body: Body, place: usize) {
        let mut bytes = if place > 0 { host.body(body, 0, place) } else { Vec::new() };
        bytes.extend_from_slice(match body {
            Body::Request => CLOSE_OF_CLIENT,
            Body::Response => CLOSE_OF_SERVER,
        });
        host.replace_body(body, &bytes);
        self.response_is_closed |= body == Body::Response;
    }

    /// Makes an app answer that only receives, because a close frame for the client needs a chunk
    /// of the response.
    fn ping_app(&mut self, host: &impl BodyHost, place: usize, size: usize) {
        let mut bytes = host.body(Body::Request, 0, size);
        let rest = bytes.split_off(place.min(bytes.len()));
        bytes.extend_from_slice(PING_OF_CLIENT);
        bytes.extend_from_slice(&rest);
        host.replace_body(Body::Request, &bytes);
        self.has_pinged = true;
    }

    /// Follows a chunk. Returns the last place in it where a frame may be inserted; none if there
    /// is no such place, or the chunk ends behind a close frame or in garbage.
    fn follow(
        follower: &mut Follower,
        host: &impl BodyHost,
        body: Body,
        size: usize,
        takes_fragments: bool,
    ) -> Option<usize> {
        let mut at = 0;
        let mut place = None;
        let note =
            |follower: &Follower, at: usize, place: &mut Option<usize>| match follower.position() {
                Position::BetweenMessages => *place = Some(at),
                Position::BetweenFragments if takes_fragments => *place = Some(at),
                Position::Closed | Position::Garbage => *place = None,
                Position::BetweenFragments | Position::InFrame => {}
            };
        note(follower, at, &mut place);
        while at < size {
            let skipped = follower.skip(size - at);
            at += skipped;
            if skipped > 0 {
                note(follower, at, &mut place);
                continue;
            }
            let window = host.body(body, at, WINDOW.min(size - at));
            if window.is_empty() {
                return None; // Envoy has no more bytes than these
            }
            let mut rest = window.as_slice();
            while !rest.is_empty() {
                let length = follower.read(rest);
                rest = rest.get(length..).unwrap_or_default();
                at += length;
                note(follower, at, &mut place);
            }
        }
        place
    }
}

const SWITCHING_PROTOCOLS: u64 = 101;

/// The status of the response, which Envoy knows from the response headers on.
fn response_code(host: &impl Control) -> Option<u64> {
    let bytes = host.property("response\0code")?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}
