//! HTTP/2 frame by frame, for actions that no library supports: GOAWAY while streams run, bytes
//! that break the protocol.

use std::net::SocketAddr;

use crate::h1::{Client, Connect};
use crate::wait::{ANSWER, within};
use crate::{Context as _, Outcome, ensure};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const GOAWAY: u8 = 7;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

#[derive(Clone, Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn new(kind: u8, flags: u8, stream: u32, payload: Vec<u8>) -> Self {
        Self { kind, flags, stream, payload }
    }

    pub(crate) fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }

    fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).unwrap_or(u32::MAX).to_be_bytes();
        let mut bytes = vec![length[1], length[2], length[3], self.kind, self.flags];
        bytes.extend_from_slice(&self.stream.to_be_bytes());
        bytes.extend_from_slice(&self.payload);
        bytes
    }
}

pub struct RawH2 {
    client: Client,
}

impl RawH2 {
    pub async fn connect(to: SocketAddr) -> Outcome<Self> {
        let mut client = Connect::to(to).open().await?;
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await?;
        let mut raw = Self { client };
        raw.send(&Frame::new(SETTINGS, 0, 0, Vec::new())).await?;
        Ok(raw)
    }

    pub async fn send(&mut self, frame: &Frame) -> Outcome {
        self.client.send(&frame.bytes()).await
    }

    /// A GET without a body. Streams of clients have odd numbers, each higher than the one before.
    pub async fn get(&mut self, stream: u32, path: &str) -> Outcome {
        // HPACK: `:method: GET` and `:scheme: http` from the static table, `:path` and `:authority`
        // as literals.
        let mut block = vec![
            0x82,
            0x86,
            0x04,
            u8::try_from(path.len()).context("a path of at most 126 bytes")?,
        ];
        block.extend_from_slice(path.as_bytes());
        block.extend_from_slice(b"\x01\x0atest.local");
        self.send(&Frame::new(HEADERS, END_HEADERS | END_STREAM, stream, block)).await
    }

    /// Sends GOAWAY: the client will open no more streams, and the running ones continue.
    pub async fn go_away(&mut self) -> Outcome {
        self.send(&Frame::new(GOAWAY, 0, 0, vec![0; 8])).await
    }

    /// The next frame, with settings acknowledged on the way.
    pub async fn receive(&mut self) -> Outcome<Frame> {
        let frame = within(ANSWER, "an HTTP/2 frame", self.read()).await?;
        if frame.kind == SETTINGS && frame.flags & ACK == 0 {
            self.send(&Frame::new(SETTINGS, ACK, 0, Vec::new())).await?;
        }
        Ok(frame)
    }

    /// Waits until the stream ends cleanly.
    pub(crate) async fn stream_end(&mut self, stream: u32) -> Outcome {
        loop {
            let frame = self.receive().await?;
            ensure!(
                frame.kind != RST_STREAM || frame.stream != stream,
                "stream {stream} was reset: {:?}",
                frame.payload
            );
            if frame.stream == stream && frame.ends_stream() {
                return Ok(());
            }
        }
    }

    async fn read(&mut self) -> Outcome<Frame> {
        let head = self.client.wire.exactly(9).await?;
        let length = head[..3].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
        let payload = self.client.wire.exactly(length).await?.to_vec();
        Ok(Frame { kind: head[3], flags: head[4], stream, payload })
    }
}
