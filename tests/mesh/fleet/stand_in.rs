//! A stand-in for the statistics of all pods: one listener on all their addresses.

use std::collections::BTreeMap;
use std::net::{self, Ipv4Addr, SocketAddr};
use std::sync::{PoisonError, RwLock};
use std::thread;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;

use super::pods::Kind;
use kit::prelude::*;

pub(super) const STATS: u16 = 15020;
/// The port that accepts connections and never answers.
pub(super) const SILENT: u16 = 15999;

/// The index of each pod, by its address.
static PODS: RwLock<BTreeMap<Ipv4Addr, usize>> = RwLock::new(BTreeMap::new());

/// Replaces the pods that are served.
pub(super) fn serve_pods(addresses: BTreeMap<Ipv4Addr, usize>) {
    *PODS.write().unwrap_or_else(PoisonError::into_inner) = addresses;
}

fn index_of(address: Ipv4Addr) -> Option<usize> {
    PODS.read().unwrap_or_else(PoisonError::into_inner).get(&address).copied()
}

/// Starts the listeners. They run until the process ends, not only for the case that starts them.
pub(super) fn start() -> Outcome {
    let [stats, silent] =
        [STATS, SILENT].map(|port| net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)));
    let (stats, silent) = (stats?, silent?);
    for listener in [&stats, &silent] {
        listener.set_nonblocking(true)?;
    }
    let mut runtime = runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().context("a runtime")?;
    thread::spawn(move || {
        runtime.block_on(async move {
            let (Ok(stats), Ok(silent)) =
                (TcpListener::from_std(stats), TcpListener::from_std(silent))
            else {
                return;
            };
            tokio::join!(accept(stats, true), accept(silent, false));
        });
    });
    Ok(())
}

async fn accept(listener: TcpListener, answers: bool) {
    let mut kept = Vec::new();
    while let Ok((stream, _)) = listener.accept().await {
        if answers {
            tokio::spawn(serve(stream));
        } else {
            kept.push(stream);
        }
    }
}

async fn serve(mut stream: TcpStream) -> Outcome {
    let SocketAddr::V4(own) = stream.local_addr()? else { bail!("not an address of a pod") };
    let page = page(index_of(*own.ip()).context("no pod has this address")?);
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{page}",
        page.len()
    );
    let mut seen = Vec::new();
    let mut buffer = [0; 2048];
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        seen.extend_from_slice(&buffer[..read]);
        if seen.ends_with(b"\r\n\r\n") {
            seen.clear();
            stream.write_all(answer.as_bytes()).await?;
        }
    }
}

/// Envoy's statistics with `filter=laststream_`, for the kind of this pod.
fn page(index: usize) -> String {
    let counter = |in_flight: usize| {
        format!(
            "# TYPE laststream_streams_in_flight_inbound gauge\n\
             laststream_streams_in_flight_inbound{{}} {in_flight}\n\
             laststream_streams_long_lived_inbound{{}} 0\n\
             laststream_streams_begun_inbound_total{{}} {index}\n"
        )
    };
    let gate = |state: u8| {
        format!(
            "laststream_gate_state{{}} {state}\nlaststream_gate_drain_seconds{{}} 7\n\
             laststream_gate_count_exact{{}} 1\nlaststream_gate_count_asking{{}} 0\n"
        )
    };
    match Kind::of(index) {
        Kind::Draining => counter(2) + &gate(1),
        Kind::Without => "# TYPE envoy_server_live gauge\nenvoy_server_live{} 1\n".to_owned(),
        Kind::Half => counter(1),
        _ => counter(1) + &gate(0),
    }
}
