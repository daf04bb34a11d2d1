//! Follows the frames of one direction of a WebSocket (RFC 6455), to find the places where another
//! frame may be inserted. It reads only frame headers and skips payloads, so compression and text
//! do not matter.

/// The end of the WebSocket that writes the direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// The client, whose frames are masked.
    Client,
    /// The server, whose frames are not masked.
    Server,
}

/// The position at the end of the bytes that have arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Between two messages.
    BetweenMessages,
    /// Between two fragments of a message; a control frame may stand here.
    BetweenFragments,
    /// Inside of a frame.
    InFrame,
    /// Behind the writer's own close frame: no frame may follow.
    Closed,
    /// In bytes that are not frames. The beginning of the next frame is not known.
    Garbage,
}

/// Two bytes, eight of length, four of the mask.
const LONGEST_HEADER: usize = 14;

const FIN: u8 = 0x80;
/// A compressed message has this bit in its first frame.
const COMPRESSED: u8 = 0x40;
/// Bits that no extension in use has.
const RESERVED: u8 = 0x30;
const MASKED: u8 = 0x80;

const CONTINUATION: u8 = 0;
const CLOSE: u8 = 8;
const LONGEST_CONTROL: u8 = 125;

/// One direction of a WebSocket, from its first byte.
#[derive(Debug, Clone)]
pub struct Follower {
    writer: Writer,
    state: State,
    /// The last data frame was not the last of its message.
    in_message: bool,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// `count` bytes of a header have arrived.
    Header {
        bytes: [u8; LONGEST_HEADER],
        count: usize,
    },
    /// `missing` bytes of the payload have not arrived.
    Payload {
        missing: u64,
        closes: bool,
    },
    Closed,
    Garbage,
}

const BEGIN: State = State::Header { bytes: [0; LONGEST_HEADER], count: 0 };

/// The fields of a complete header.
struct Header {
    payload: u64,
    closes: bool,
    in_message: bool,
}

impl Follower {
    /// A direction of which no byte has arrived.
    #[must_use]
    pub fn new(writer: Writer) -> Self {
        Self { writer, state: BEGIN, in_message: false }
    }

    /// The current position.
    #[must_use]
    pub fn position(&self) -> Position {
        match self.state {
            State::Header { count: 0, .. } if self.in_message => Position::BetweenFragments,
            State::Header { count: 0, .. } => Position::BetweenMessages,
            State::Header { .. } | State::Payload { .. } => Position::InFrame,
            State::Closed => Position::Closed,
            State::Garbage => Position::Garbage,
        }
    }

    /// Whether a close frame has begun. A close frame is at most 125 bytes long, so the rest of it
    /// is on its way.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        matches!(self.state, State::Closed | State::Payload { closes: true, .. })
    }

    /// Skips at most `available` bytes of the current frame's payload, and returns how many. Bytes
    /// behind a close frame, and garbage, are skipped as a whole.
    pub fn skip(&mut self, available: usize) -> usize {
        match &mut self.state {
            State::Header { .. } => 0,
            State::Closed | State::Garbage => available,
            State::Payload { missing, closes } => {
                let skipped = usize::try_from(*missing).unwrap_or(usize::MAX).min(available);
                *missing -= skipped as u64;
                if *missing == 0 {
                    self.state = if *closes { State::Closed } else { BEGIN };
                }
                skipped
            }
        }
    }

    /// Reads bytes up to the end of the current frame, or all of them if it is longer; returns how
    /// many.
    pub fn read(&mut self, bytes: &[u8]) -> usize {
        let mut position = 0;
        while let Some(&byte) = bytes.get(position) {
            if !matches!(self.state, State::Header { .. }) {
                break;
            }
            self.read_header_byte(byte);
            position += 1;
            if self.is_between_frames() {
                return position; // a frame without payload
            }
        }
        position + self.skip(bytes.len() - position)
    }

    fn is_between_frames(&self) -> bool {
        matches!(self.state, State::Header { count: 0, .. })
    }

    fn read_header_byte(&mut self, byte: u8) {
        let State::Header { bytes, count } = &mut self.state else { return };
        let Some(place) = bytes.get_mut(*count) else { return };
        *place = byte;
        *count += 1;
        let (header, is_masked) = (*bytes, self.writer == Writer::Client);
        let header = header.get(..*count).unwrap_or_default();
        if !is_plausible(header, is_masked, self.in_message) {
            self.state = State::Garbage;
        } else if let Some(Header { payload, closes, in_message }) =
            parse(header, is_masked, self.in_message)
        {
            self.in_message = in_message;
            self.state = match (payload, closes) {
                (0, true) => State::Closed,
                (0, false) => BEGIN,
                (missing, closes) => State::Payload { missing, closes },
            };
        }
    }
}

/// Whether a frame may begin with these bytes. A length in more bytes than necessary is accepted,
/// because the end of the frame is still certain.
fn is_plausible(header: &[u8], is_masked: bool, in_message: bool) -> bool {
    let Some(&first) = header.first() else { return true };
    let opcode = first & 0x0f;
    let is_control = opcode >= CLOSE;
    let starts_right = match opcode {
        CONTINUATION => in_message && first & COMPRESSED == 0,
        1 | 2 => !in_message,
        8..=10 => first & FIN != 0 && first & COMPRESSED == 0,
        _ => false,
    };
    if !starts_right || first & RESERVED != 0 {
        return false;
    }
    let Some(&second) = header.get(1) else { return true };
    let length = second & !MASKED;
    if (second & MASKED != 0) != is_masked || is_control && length > LONGEST_CONTROL {
        return false;
    }
    // The highest bit of a 64-bit length is never set.
    length != 127 || header.get(2).is_none_or(|byte| byte & 0x80 == 0)
}

/// Parses a plausible header; none while bytes are missing.
fn parse(header: &[u8], is_masked: bool, in_message: bool) -> Option<Header> {
    let &[first, second, ref rest @ ..] = header else { return None };
    let length = second & !MASKED;
    let extended = match length {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let mask = if is_masked { 4 } else { 0 };
    if rest.len() < extended + mask {
        return None;
    }
    let payload = match rest.get(..extended) {
        Some([]) | None => length.into(),
        Some(bytes) => bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)),
    };
    let opcode = first & 0x0f;
    let in_message = if opcode >= CLOSE { in_message } else { first & FIN == 0 };
    Some(Header { payload, closes: opcode == CLOSE, in_message })
}

#[cfg(test)]
#[path = "follower_tests.rs"]
mod tests;
