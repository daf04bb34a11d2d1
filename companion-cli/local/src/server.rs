//! An HTTP/1.1 server on the loopback interface, for the echo of `run` and the models of `demo`.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread::{self, JoinHandle};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value};
use tokio::runtime;
use tokio::sync::watch;

/// The error of a server that does not start.
pub(crate) const LISTEN: &str = "cannot listen on 127.0.0.1";

/// The header limit, which is more than Envoy lets pass.
const MOST_HEADERS: usize = 256;

/// A server with a separate thread. It ends when this value is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    is_killed: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Server {
    pub(crate) fn start<H, F>(handler: H) -> io::Result<Self>
    where
        H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Response<String>, hyper::Error>> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (is_killed, changes) = watch::channel(false);
        let thread = thread::Builder::new().name("server".into()).spawn(move || {
            // fails only if the listener cannot be used
            let _ = runtime.block_on(serve(listener, handler, changes));
            runtime.shutdown_background();
        })?;
        Ok(Self { address, is_killed, thread })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends at once: connections break.
    pub(crate) fn kill(&self) {
        self.is_killed.send_replace(true);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn serve<H, F>(
    listener: TcpListener,
    handler: H,
    mut is_killed: watch::Receiver<bool>,
) -> io::Result<()>
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Response<String>, hyper::Error>> + Send + 'static,
{
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let accepted = tokio::select! {
            _ = is_killed.wait_for(|is_killed| *is_killed) => return Ok(()),
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else { continue }; // the client has gone already
        let _ = stream.set_nodelay(true); // without it, the server is only slower
        let connection = http1::Builder::new()
            .max_headers(MOST_HEADERS)
            .serve_connection(TokioIo::new(stream), service_fn(handler.clone()))
            .with_upgrades();
        // an error of a connection is its client's concern
        tokio::spawn(connection);
    }
}

pub(crate) fn json(status: u16, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The headers as JSON. A header that is there several times is shown as a list.
pub(crate) fn headers_json(headers: &HeaderMap) -> Map<String, Value> {
    let of = |name: &HeaderName| {
        let mut values: Vec<Value> =
            headers.get_all(name).iter().map(|value| text(value).into()).collect();
        if values.len() == 1 { values.remove(0) } else { values.into() }
    };
    headers.keys().map(|name| (name.as_str().to_owned(), of(name))).collect()
}

pub(crate) fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}
