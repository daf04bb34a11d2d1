//! The client of a lane: a request and a WebSocket through the caller, at the same time.

use std::net::{Ipv4Addr, TcpStream};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use http::Method;
use serde::Serialize;
use tokio_tungstenite::tungstenite;

use super::clock::{Clock, GRAIN};
use super::record::{Actor, LaneMark, Record, seconds};
use super::times::Times;
use crate::http::Http;
use laststream_base::causes::Context as _;
use laststream_gate::Response;

/// What the client got of one stream.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StreamEnd {
    /// The status of a request, or what became of the stream.
    pub result: String,
    /// The time of its end, in seconds since both streams began.
    pub at: f64,
    /// Whether the client did not get all that the app sent.
    pub lost: bool,
}

pub(super) struct Client<'a> {
    /// The port of the caller.
    pub(super) port: u16,
    pub(super) times: &'a Times,
    pub(super) clock: &'a Clock,
    pub(super) record: &'a Record<'a>,
}

impl Client<'_> {
    pub(super) fn request(&self) -> StreamEnd {
        let path = format!("/delay/{}", self.times.request.as_secs_f64());
        let (url, patience) = (self.url("http", &path), self.times.patience());
        self.record.note(Actor::Client, format!("GET {path}"));
        let send = move || Http::default().request(Method::GET, &url, &[], patience);
        let answer = until_over(self.clock, move || send().map_err(|error| error.to_string()));
        let is_lost = !answer.as_ref().is_ok_and(is_whole);
        let result = answer.map(|reply| reply.status.to_string());
        self.ended("request", result, is_lost, [LaneMark::Answered, LaneMark::Lost])
    }

    pub(super) fn websocket(&self) -> StreamEnd {
        let path = format!("/websocket/{}", self.times.websocket.as_secs_f64());
        let (url, port, patience) = (self.url("ws", &path), self.port, self.times.patience());
        self.record.note(Actor::Client, format!("opens the WebSocket {path}"));
        let end = until_over(self.clock, move || until_closed(&url, port, patience));
        let is_lost = end.is_err();
        let result = end.map(|()| "closed".to_owned());
        self.ended("WebSocket", result, is_lost, [LaneMark::Closed, LaneMark::Cut])
    }

    fn url(&self, scheme: &str, path: &str) -> String {
        format!("{scheme}://127.0.0.1:{}{path}", self.port)
    }

    /// Notes the end of a stream, with the mark for a whole one or for a lost one.
    fn ended(
        &self,
        kind: &str,
        result: Result<String, String>,
        is_lost: bool,
        [whole, broken]: [LaneMark; 2],
    ) -> StreamEnd {
        let at = seconds(self.clock.now());
        let words = match &result {
            Ok(result) => format!("{kind}: {result}"),
            Err(error) => format!("{kind}: the connection breaks: {error}"),
        };
        self.record.mark(Actor::Client, words, if is_lost { broken } else { whole });
        let result = result.unwrap_or_else(|_| "cut".to_owned());
        StreamEnd { result, at, lost: is_lost }
    }
}

/// Whether the response is the app's own and complete.
fn is_whole(response: &Response) -> bool {
    response.status == 200
        && serde_json::from_str::<serde_json::Value>(&response.body)
            .is_ok_and(|json| json["delay"].is_number())
}

/// Opens a WebSocket, and reads until the app's close frame.
fn until_closed(url: &str, port: u16, patience: Duration) -> Result<(), String> {
    let connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).context("no connection")?;
    connection.set_read_timeout(Some(patience)).context("no time limit")?;
    let opened = tungstenite::client(url, connection).map_err(|error| error.to_string());
    let (mut socket, _) = opened?;
    while !socket.read().map_err(|error| error.to_string())?.is_close() {}
    Ok(())
}

/// Runs this in a separate thread, because nothing can end a request that is under way. When the
/// demo is over, the thread is abandoned.
fn until_over<T: Send + 'static>(
    clock: &Clock,
    run: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (sender, answer) = channel();
    thread::spawn(move || sender.send(run()));
    loop {
        match answer.recv_timeout(GRAIN) {
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Timeout) if !clock.is_over() => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}
