//! WebSockets on raw frames: a client that closes cleanly, with FIN or with RST, and the echo that
//! the upstream serves.

use std::net::SocketAddr;

use bytes::Buf;

use crate::h1::{Client, Request};
use crate::wait::{ANSWER, within};
use crate::wire::Wire;
use crate::{Context as _, Outcome, ensure, ensure_eq};

pub(crate) const TEXT: u8 = 1;
pub(crate) const BINARY: u8 = 2;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

const MASK: [u8; 4] = [0x21, 0x43, 0x65, 0x87];

/// One unfragmented frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub opcode: u8,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn text(text: &str) -> Self {
        Self { opcode: TEXT, payload: text.into() }
    }

    pub fn close(code: u16) -> Self {
        Self { opcode: CLOSE, payload: code.to_be_bytes().to_vec() }
    }

    /// The code of a close frame.
    pub fn close_code(&self) -> Option<u16> {
        let code = self.payload.first_chunk::<2>()?;
        (self.opcode == CLOSE).then(|| u16::from_be_bytes(*code))
    }

    /// The bytes of the frame: clients mask them, servers do not.
    pub fn bytes(&self, masked: bool) -> Vec<u8> {
        let mask_bit = if masked { 0x80 } else { 0 };
        let mut bytes = vec![0x80 | self.opcode];
        match (u8::try_from(self.payload.len()), u16::try_from(self.payload.len())) {
            (Ok(short), _) if short < 126 => bytes.push(mask_bit | short),
            (_, Ok(medium)) => {
                bytes.push(mask_bit | 126);
                bytes.extend_from_slice(&medium.to_be_bytes());
            }
            _ => {
                bytes.push(mask_bit | 127);
                bytes.extend_from_slice(&(self.payload.len() as u64).to_be_bytes());
            }
        }
        if masked {
            bytes.extend_from_slice(&MASK);
        }
        let mask = if masked { MASK } else { [0; 4] };
        bytes.extend(self.payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        bytes
    }

    /// Reads a frame. Nothing is lost if the caller gives up waiting.
    pub async fn read(wire: &mut Wire) -> Outcome<Self> {
        loop {
            if let Some((frame, length)) = Self::parse(&wire.buffer)? {
                wire.buffer.advance(length);
                return Ok(frame);
            }
            ensure!(wire.fill().await?, "the connection ended within a frame");
        }
    }

    /// The first frame and its length in bytes; none while some of them are missing.
    pub(crate) fn parse(bytes: &[u8]) -> Outcome<Option<(Self, usize)>> {
        let &[first, second, ref rest @ ..] = bytes else { return Ok(None) };
        let size = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let Some((extended, rest)) = rest.split_at_checked(size) else { return Ok(None) };
        let length = if size == 0 { usize::from(second & 0x7f) } else { number(extended) };
        ensure!(length < 1 << 24, "a frame of {length} bytes");
        let mask_size = if second & 0x80 == 0 { 0 } else { 4 };
        let Some((mask, rest)) = rest.split_at_checked(mask_size) else { return Ok(None) };
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        let mask = if mask.is_empty() { &[0; 4] } else { mask };
        let payload =
            payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
        let frame = Self { opcode: first & 0x0f, payload };
        Ok(Some((frame, 2 + size + mask_size + length)))
    }
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// A connection after the upgrade. Dropping it closes with FIN and no close frame.
pub struct WebSocket {
    pub client: Client,
}

impl WebSocket {
    pub async fn open(to: SocketAddr, target: &str) -> Outcome<Self> {
        Self::upgrade(Client::connect(to).await?, Request::get(target)).await
    }

    /// Upgrades a connection, with a request whose headers the caller chooses.
    pub async fn upgrade(mut client: Client, request: Request) -> Outcome<Self> {
        let request = request.header("connection", "Upgrade").header("upgrade", "websocket");
        let request = request
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA==");
        client.send(&request.bytes()).await?;
        let (response, _) = client.response_head("GET").await?;
        ensure_eq!(response.status, 101, "status of the upgrade");
        Ok(Self { client })
    }

    pub async fn send(&mut self, frame: &Frame) -> Outcome {
        self.client.send(&frame.bytes(true)).await
    }

    pub async fn receive(&mut self) -> Outcome<Frame> {
        within(ANSWER, "a WebSocket frame", Frame::read(&mut self.client.wire)).await
    }

    /// Sends a text and waits for it to come back.
    pub async fn echo(&mut self, text: &str) -> Outcome {
        self.send(&Frame::text(text)).await?;
        let back = self.receive().await?;
        ensure_eq!(back, Frame::text(text), "the echo");
        Ok(())
    }

    /// Closes cleanly: a close frame from each side, then the end of the connection.
    pub async fn close(mut self, code: u16) -> Outcome {
        self.send(&Frame::close(code)).await?;
        let back = self.receive().await?;
        ensure_eq!(back.close_code(), Some(code), "the close frame that came back");
        self.client.ended().await.context("after the close frames").map(drop)
    }

    /// Leaves with RST.
    pub fn reset(self) -> Outcome {
        self.client.reset()
    }
}

/// The upstream's side, from the request's end on. The key is not checked, because Envoy does not
/// check it either.
pub async fn serve(wire: &mut Wire) -> Outcome {
    let accept = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\n\
                  upgrade: websocket\r\nsec-websocket-accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n\r\n";
    wire.send(accept.as_bytes()).await?;
    loop {
        let frame = Frame::read(wire).await?;
        match frame.opcode {
            PING => wire.send(&Frame { opcode: PONG, ..frame }.bytes(false)).await?,
            CLOSE => return wire.send(&frame.bytes(false)).await,
            _ => wire.send(&frame.bytes(false)).await?,
        }
    }
}
