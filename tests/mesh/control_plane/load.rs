//! Constant load through a proxy. It can pause, so that counts can be compared.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::task::JoinSet;
use tokio::time::sleep;

use kit::prelude::*;
use kit::wait::join_all;

const CLIENTS: u64 = 4;

/// Clients that send a request one time after the other, most of them on one connection, and one of
/// them on a new one each time. It fails with the first error of a client.
pub(super) struct Load {
    clients: JoinSet<Outcome>,
    shared: Arc<Shared>,
}

struct Shared {
    to: SocketAddr,
    request: Request,
    requests: AtomicU64,
    waiting: AtomicU64,
    paused: AtomicBool,
    ended: AtomicBool,
}

impl Load {
    pub(super) fn start(to: SocketAddr, request: &Request) -> Self {
        let shared = Arc::new(Shared {
            to,
            request: request.clone(),
            requests: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            paused: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            clients.spawn(ask(Arc::clone(&shared), number == 0));
        }
        Self { clients, shared }
    }

    pub(super) fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Acquire)
    }

    /// Runs `what` while no request is sent.
    pub(super) async fn pause(&self, what: impl AsyncFn() -> Outcome) -> Outcome {
        self.shared.paused.store(true, Ordering::Release);
        wait_for(PATIENCE, "the load to pause", async || {
            let waiting = self.shared.waiting.load(Ordering::Acquire);
            ensure_eq!(waiting, CLIENTS, "clients that wait");
            Ok(())
        })
        .await?;
        let outcome = what().await;
        self.shared.paused.store(false, Ordering::Release);
        outcome
    }

    pub(super) async fn end(self) -> Outcome<u64> {
        self.shared.ended.store(true, Ordering::Release);
        join_all(self.clients).await?;
        Ok(self.shared.requests.load(Ordering::Acquire))
    }
}

async fn ask(shared: Arc<Shared>, on_new_connections: bool) -> Outcome {
    let mut client = Client::connect(shared.to).await?;
    while !shared.ended.load(Ordering::Acquire) {
        if shared.paused.load(Ordering::Acquire) {
            shared.waiting.fetch_add(1, Ordering::AcqRel);
            while shared.paused.load(Ordering::Acquire) {
                sleep(Duration::from_millis(5)).await;
            }
            shared.waiting.fetch_sub(1, Ordering::AcqRel);
        }
        let response = client.request(&shared.request).await?.expect(200)?;
        shared.requests.fetch_add(1, Ordering::AcqRel);
        // A listener that is replaced closes its connections.
        let closes = response.header("connection").as_deref() == Some("close");
        if on_new_connections || closes {
            client = Client::connect(shared.to).await?;
        }
    }
    Ok(())
}
