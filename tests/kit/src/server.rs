//! A server of plain TCP: a task for each connection, and all of them end with the server. For
//! answers from a script see [`crate::fake_server`].

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::wire::local;
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
