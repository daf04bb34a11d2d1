//! A server of plain TCP or HTTP/1 whose answers are code: a task for each connection, and all of
//! them end with the server. For answers from a script see [`crate::fake_server`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::wire::{Framing, Head, Wire, local};
use crate::{Context as _, Outcome};

pub struct Server {
    pub address: SocketAddr,
    task: AbortHandle,
}

impl Server {
    pub async fn start<S>(serve: impl Fn(TcpStream) -> S + Send + 'static) -> Outcome<Self>
    where
        S: Future<Output = Outcome> + Send + 'static,
    {
        let listener = TcpListener::bind(local(0)).await.context("listening")?;
        let address = listener.local_addr()?;
        Ok(Self { address, task: tokio::spawn(accept(listener, serve)).abort_handle() })
    }

    /// Gives each request a status and a body. The requests of a connection wait for each other.
    pub async fn answering<A>(answer: impl Fn(Head) -> A + Send + Sync + 'static) -> Outcome<Self>
    where
        A: Future<Output = Outcome<(u16, Vec<u8>)>> + Send + 'static,
    {
        let answer = Arc::new(answer);
        Self::start(move |tcp| {
            let answer = Arc::clone(&answer);
            async move {
                let mut wire = Wire::plain(tcp);
                while let Some(head) = wire.head().await? {
                    wire.body(Framing::of_request(&head)).await?;
                    let (status, body) = answer(head).await?;
                    let length = body.len();
                    let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n\r\n");
                    wire.send(&[head.as_bytes(), &body].concat()).await?;
                }
                Ok(())
            }
        })
        .await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Connections are in the set, so they end with the server. Their errors are ignored, because the
/// tests provoke them.
async fn accept<S>(listener: TcpListener, server: impl Fn(TcpStream) -> S)
where
    S: Future<Output = Outcome> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((tcp, _)) => {
                    tcp.set_nodelay(true).ok();
                    connections.spawn(server(tcp));
                }
                // out of descriptors for a moment
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
