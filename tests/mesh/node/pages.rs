//! Pages in browsers: each has a WebSocket or an event stream through a gateway, and connects again
//! after its end.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::inside::EVENTS;
use super::service::Service;
use crate::load::{HOST, any_of};
use kit::locked;
use kit::prelude::*;
use kit::websocket::{Frame, WebSocket};

/// Paths of WebSockets, each with a separate route.
pub(super) const CHAT: &str = "/chat";
pub(super) const OTHER: &str = "/other";

/// The time over which the pages are opened, and the interval between two texts on a WebSocket.
const SECOND: Duration = Duration::from_secs(1);

/// The kind of a page's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A WebSocket to [`CHAT`], on which a text is sent each second.
    Talking,
    /// A WebSocket to [`CHAT`], on which nothing is sent.
    Silent,
    /// A WebSocket to [`OTHER`], on which a text is sent each second.
    Elsewhere,
    /// An event stream, as an EventSource of a browser.
    EventStream,
}

impl Kind {
    fn path(self) -> &'static str {
        match self {
            Self::Talking | Self::Silent => CHAT,
            Self::Elsewhere => OTHER,
            Self::EventStream => EVENTS,
        }
    }

    /// The time from the end of a connection to the next connection. Chromium's EventSource waits 3
    /// s, unless the server sets another time. A page chooses the time for its WebSocket itself.
    fn delay(self) -> Duration {
        match self {
            Self::EventStream => Duration::from_secs(3),
            _ => Duration::from_millis(fastrand::u64(200..1_200)),
        }
    }
}

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A close frame with this code.
    Closed(u16),
    /// No close frame, for which browsers report 1006; or an event stream without its last chunk.
    Broken,
    /// An event stream with its last chunk.
    Complete,
}

/// The history of a page.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) kind: Kind,
    pub(super) is_open: bool,
    pub(super) ends: Vec<End>,
    /// The times at which it connected again, with or without success.
    pub(super) returns: Vec<Instant>,
    pub(super) failures: Vec<String>,
}

/// Dropping it closes all pages.
pub(super) struct Pages {
    _tasks: JoinSet<()>,
    shared: Arc<Shared>,
}

struct Shared {
    gateway: Service,
    pages: Mutex<Vec<Page>>,
}

impl Pages {
    /// Opens this number of pages of each kind, and waits until all are connected.
    pub(super) async fn open(gateway: Service, counts: &[(Kind, usize)]) -> Outcome<Self> {
        let new = |kind| Page {
            kind,
            is_open: false,
            ends: Vec::new(),
            returns: Vec::new(),
            failures: Vec::new(),
        };
        let kinds = counts.iter().flat_map(|(kind, count)| std::iter::repeat_n(*kind, *count));
        let all: Vec<Page> = kinds.map(new).collect();
        let kinds: Vec<Kind> = all.iter().map(|page| page.kind).collect();
        let shared = Arc::new(Shared { gateway, pages: Mutex::new(all) });
        let mut tasks = JoinSet::new();
        for (index, kind) in kinds.into_iter().enumerate() {
            tasks.spawn(live(Arc::clone(&shared), index, kind));
        }
        let pages = Self { _tasks: tasks, shared };
        pages.wait("the pages to be open", |page| page.is_open).await?;
        Ok(pages)
    }

    /// Waits until the connection of each page has ended and is open again.
    pub(super) async fn all_back(&self) -> Outcome {
        self.wait("the pages to be back", |page| page.is_open && !page.ends.is_empty()).await
    }

    /// The histories of all pages until now.
    pub(super) fn now(&self) -> Vec<Page> {
        self.shared.pages().clone()
    }

    async fn wait(&self, what: &str, is_so: impl Fn(&Page) -> bool) -> Outcome {
        let look = async || {
            let pages = self.shared.pages();
            let (so, all) = (pages.iter().filter(|page| is_so(page)).count(), pages.len());
            let failure = pages.iter().find_map(|page| page.failures.first());
            ensure!(so == all, "{so} of {all}; the first failure: {failure:?}");
            Ok(())
        };
        wait_for(PATIENCE, what, look).await
    }
}

impl Shared {
    fn pages(&self) -> MutexGuard<'_, Vec<Page>> {
        locked(&self.pages)
    }

    fn change(&self, index: usize, change: impl FnOnce(&mut Page)) {
        self.pages().get_mut(index).map(change);
    }
}

/// Runs a page until the browser closes it.
async fn live(shared: Arc<Shared>, index: usize, kind: Kind) {
    sleep(SECOND.mul_f64(fastrand::f64())).await;
    loop {
        let end = visit(&shared, index, kind).await;
        shared.change(index, |page| {
            page.is_open = false;
            match end {
                Ok(end) => page.ends.push(end),
                Err(failure) => page.failures.push(format!("{kind:?}: {failure:#}")),
            }
        });
        sleep(kind.delay()).await;
        shared.change(index, |page| page.returns.push(Instant::now()));
    }
}

/// Runs a connection from its beginning to its end. It is an error if it never opens.
async fn visit(shared: &Shared, index: usize, kind: Kind) -> Outcome<End> {
    let to = any_of(&shared.gateway).await;
    let opened = || shared.change(index, |page| page.is_open = true);
    let client = Client::connect(to).await?;
    let request = Request::get(kind.path()).host(HOST);
    if kind == Kind::EventStream {
        return read_events(client, request, opened).await;
    }
    let socket = WebSocket::upgrade(client, request).await?;
    opened();
    Ok(converse(socket, kind != Kind::Silent).await)
}

/// Reads an event stream to its end, and reports each piece.
pub(super) async fn read_events(
    mut client: Client,
    request: Request,
    received: impl Fn(),
) -> Outcome<End> {
    client.send(&request.header("accept", "text/event-stream").bytes()).await?;
    let (head, mut framing) = client.response_head("GET").await?;
    ensure!(head.status == 200, "the event stream: {}", head.status);
    loop {
        match client.piece(&mut framing).await {
            Ok(Some(_)) => received(),
            Ok(None) => return Ok(End::Complete),
            Err(_) => return Ok(End::Broken),
        }
    }
}

/// Runs a WebSocket to its end. Echoes are not compared, because another test checks that frames
/// are undamaged.
async fn converse(mut socket: WebSocket, talks: bool) -> End {
    let mut next = Instant::now() + SECOND.mul_f64(fastrand::f64());
    loop {
        match timeout_at(next, socket.receive()).await {
            Err(_) => {
                next += SECOND;
                if talks {
                    // Ignore the error of a connection that has ended, because frames from before
                    // its end may still be unread.
                    let _ = socket.send(&Frame::text("hello")).await;
                }
            }
            Ok(Err(_)) => return End::Broken,
            Ok(Ok(frame)) => {
                if let Some(code) = frame.close_code() {
                    let _ = socket.send(&Frame::close(code)).await; // the other side may have gone
                    let _ = timeout(SECOND, socket.client.ended()).await; // browsers wait, too
                    return End::Closed(code);
                }
            }
        }
    }
}
