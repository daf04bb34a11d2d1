//! The clients: streams of every kind, each a task that records in the view what its client sees.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use super::view::{Holds, Id, State, View};
use kit::prelude::*;
use kit::websocket::{Frame, WebSocket};

/// The time after which Envoy certainly has a request that waits in a filter. No upstream can
/// confirm that.
const TAKEN_AFTER: Duration = Duration::from_millis(500);
/// No client waits longer than a round lasts.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counted,
    Excluded,
    /// Long-lived by its path.
    LongLived,
    WebSocket,
    /// Waits in a filter in front of the module, and then at the upstream.
    Delayed,
    /// On another listener of the same direction, without the module.
    OtherListener,
    /// On a route without the module.
    OtherRoute,
    /// Envoy follows a redirect first.
    Redirected,
    /// In the other direction, where the module counts apart.
    Outbound,
    /// The worker stands still before the filter counts it.
    StallsAtBegin,
    /// The worker stands still at its end, after Envoy has taken it from its own count.
    StallsAtEnd,
}

/// The longest stall. Only one stalling stream is under way at a time.
pub(super) const STALL: Duration = Duration::from_secs(3);

impl Kind {
    pub(super) const ORDINARY: [Self; 9] = [
        Self::Counted,
        Self::Excluded,
        Self::LongLived,
        Self::WebSocket,
        Self::Delayed,
        Self::OtherListener,
        Self::OtherRoute,
        Self::Redirected,
        Self::Outbound,
    ];

    pub(super) fn is_outbound(self) -> bool {
        self == Self::Outbound
    }

    /// Whether the module is the first that sees it.
    fn is_counted_at_once(self) -> bool {
        !matches!(self, Self::Delayed | Self::OtherListener | Self::OtherRoute | Self::Redirected)
    }

    pub(super) fn stalls(self) -> bool {
        matches!(self, Self::StallsAtBegin | Self::StallsAtEnd)
    }

    pub(super) fn is_long_lived(self) -> bool {
        matches!(self, Self::LongLived | Self::WebSocket)
    }

    fn request(self, id: Id) -> Request {
        let key = id.to_string();
        let stall = (STALL / 3 * (1 + id as u32 % 3)).as_millis().to_string();
        match self {
            Self::Excluded => Request::get(&format!("/hold/excluded/{key}")),
            Self::LongLived => Request::get(&format!("/hold/long/{key}")),
            Self::OtherRoute => Request::get(&format!("/hold/off/{key}")),
            Self::Redirected => Request::get(&format!("/redirect/hold/{key}")),
            Self::Delayed => {
                Request::get(&format!("/hold/{key}")).header("x-envoy-fault-delay-request", "700")
            }
            Self::StallsAtBegin => {
                Request::get(&format!("/hold/{key}")).header("x-laststream-stall-begin", stall)
            }
            Self::StallsAtEnd => {
                Request::get(&format!("/hold/{key}")).header("x-laststream-stall", stall)
            }
            _ => Request::get(&format!("/hold/{key}")),
        }
    }

    fn key(self, id: Id) -> String {
        match self {
            Self::Excluded => format!("excluded/{id}"),
            Self::LongLived => format!("long/{id}"),
            Self::OtherRoute => format!("off/{id}"),
            _ => id.to_string(),
        }
    }
}

/// One stream, with the handles that its client needs to end it.
pub(super) struct Stream {
    pub(super) id: Id,
    pub(super) kind: Kind,
    key: String,
    end: Arc<Notify>,
    task: AbortHandle,
}

impl Stream {
    pub(super) fn begin(
        kind: Kind,
        at: SocketAddr,
        holds: Holds,
        view: &Arc<View>,
        upstream: &Arc<Upstream>,
    ) -> Self {
        let id = view.sent(format!("{kind:?}"), holds, kind.is_counted_at_once());
        let key = kind.key(id);
        let end = Arc::new(Notify::new());
        let client = Exchange {
            id,
            kind,
            at,
            key: key.clone(),
            view: Arc::clone(view),
            upstream: Arc::clone(upstream),
            end: Arc::clone(&end),
        };
        Self { id, kind, key, end, task: tokio::spawn(client.run()).abort_handle() }
    }

    /// Ends the stream, if it is under way by now: the upstream answers, or the client closes the
    /// WebSocket.
    pub(super) fn finish(&self, upstream: &Upstream) {
        upstream.release(&self.key);
        self.end.notify_one();
    }

    /// The client aborts the stream.
    pub(super) fn abort(&self, view: &View) {
        view.ended(self.id, State::Left);
        self.task.abort();
    }
}

/// A client at work.
struct Exchange {
    id: Id,
    kind: Kind,
    at: SocketAddr,
    key: String,
    view: Arc<View>,
    upstream: Arc<Upstream>,
    end: Arc<Notify>,
}

impl Exchange {
    async fn run(self) {
        let end =
            if self.kind == Kind::WebSocket { self.socket().await } else { self.request().await };
        self.view.ended(self.id, end.map_or(State::Cut, |status| self.judge(status)));
    }

    /// A refusal is an end like any other, unless the upstream has the request already.
    fn judge(&self, status: u16) -> State {
        let has_reached_the_upstream =
            matches!(self.view.state(self.id), State::Waiting(_)) && self.kind != Kind::Delayed;
        if has_reached_the_upstream && !matches!(status, 200 | 101) {
            State::Cut
        } else {
            State::Answered(status)
        }
    }

    async fn request(&self) -> Outcome<u16> {
        let mut client = Client::connect(self.at).await?.patience(PATIENCE);
        client.send(&self.kind.request(self.id).bytes()).await?;
        let sent = Instant::now();
        let response = client.response("GET");
        tokio::pin!(response);
        loop {
            tokio::select! {
                answer = &mut response => return Ok(answer?.status),
                () = sleep(LOOK_AGAIN), if self.view.state(self.id) == State::Sent => {}
            }
            let taken = self.kind == Kind::Delayed && sent.elapsed() > TAKEN_AFTER;
            if taken || self.upstream.held(&self.key) > 0 {
                self.view.waits(self.id);
            }
        }
    }

    /// A WebSocket that the client closes with a close frame. It does not wait for the end of the
    /// connection, which is up to Envoy.
    async fn socket(&self) -> Outcome<u16> {
        let mut socket = match WebSocket::open(self.at, "/ws").await {
            // The latch was closed for a signal.
            Err(refused) if format!("{refused:#}").contains("saw 503") => return Ok(503),
            opened => opened?,
        };
        socket.echo("there").await?;
        self.view.waits(self.id);
        tokio::select! {
            () = self.end.notified() => {}
            more = socket.client.wire.fill() => bail!("the WebSocket has ended, or says what \
                nothing asked for: {}", more?),
        }
        socket.send(&Frame::close(1000)).await?;
        socket.receive().await?;
        Ok(101)
    }
}
