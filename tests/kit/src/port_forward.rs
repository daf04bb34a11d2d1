//! The port of a pod as kubelet forwards it: a WebSocket whose channel 0 carries the port's bytes
//! and channel 1 an error. It is enough for requests without a body, one after the other.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::fake_server::Asked;
use crate::websocket::{BINARY, Frame};

/// RFC 6455, section 1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const DATA: u8 = 0;
const ERROR: u8 = 1;

/// Upgrades the connection of this request, and forwards its port to `to`. `None` at the end.
pub(crate) fn serve(
    stream: &mut BufReader<impl Read + Write>,
    asked: &Asked,
    to: SocketAddr,
) -> Option<()> {
    let port: u16 = asked.parameter("ports")?.parse().ok()?;
    let key = format!("{}{GUID}", asked.header("sec-websocket-key")?);
    let accept = STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes()));
    let head = format!(
        "HTTP/1.1 101 x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-protocol: v4.channel.k8s.io\r\nsec-websocket-accept: {accept}\r\n\r\n"
    );
    stream.get_mut().write_all(head.as_bytes()).ok()?;
    for channel in [DATA, ERROR] {
        send(stream, channel, &port.to_le_bytes())?;
    }
    let (mut received, mut request) = (Vec::new(), Vec::new());
    loop {
        let frame = read(stream, &mut received)?;
        let (&DATA, data) = frame.payload.split_first()? else { return None };
        request.extend_from_slice(data);
        if request.ends_with(b"\r\n\r\n") {
            match answer(to, &std::mem::take(&mut request)) {
                Ok(answer) => send(stream, DATA, &answer)?,
                Err(error) => send(stream, ERROR, format!("port {port}: {error}").as_bytes())?,
            }
            stream.get_mut().write_all(&Frame::close(1000).bytes(false)).ok()?;
        }
    }
}

/// The answer to a request, whose body has a `content-length` or is empty.
fn answer(to: SocketAddr, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut server = BufReader::new(TcpStream::connect(to)?);
    server.get_mut().write_all(request)?;
    let (mut head, mut length) = (String::new(), 0);
    while server.read_line(&mut head)? > 2 {
        let line = head.lines().next_back().unwrap_or_default().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().unwrap_or_default();
        }
    }
    let mut body = vec![0; length];
    server.read_exact(&mut body)?;
    Ok([head.as_bytes(), &body].concat())
}

fn send(stream: &mut BufReader<impl Read + Write>, channel: u8, bytes: &[u8]) -> Option<()> {
    let payload = [&[channel], bytes].concat();
    stream.get_mut().write_all(&Frame { opcode: BINARY, payload }.bytes(false)).ok()
}

/// The next frame; `received` keeps bytes of later ones.
fn read(stream: &mut BufReader<impl Read + Write>, received: &mut Vec<u8>) -> Option<Frame> {
    let mut piece = [0; 4096];
    loop {
        if let Some((frame, length)) = Frame::parse(received).ok()? {
            received.drain(..length);
            return Some(frame);
        }
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        received.extend_from_slice(&piece[..count]);
    }
}
