//! Streams over QUIC, and tunnels of datagrams: both hold the drain, and their end opens the gate.

use std::net::SocketAddr;

use ::h2::Reason;
use http::HeaderValue;
use tokio::net::UdpSocket;

use super::bench::{Bench, SOON};
use super::watch::{lets_nothing_out, opens};
use crate::cases::stage::{hcm, routes};
use crate::lab::{Lab, cases};
use kit::certificates::Authority;
use kit::prelude::*;
use kit::wire::local;
use kit::{h2, h3};

cases! {
    an_http3_stream_holds_until_it_ends,
    a_tunnel_of_datagrams_holds_until_it_ends,
}

const GATE: &str = r#"{"quiet_ms": 300, "deadline_ms": 90000}"#;

async fn an_http3_stream_holds_until_it_ends(lab: &Lab) -> Outcome {
    let authority = Authority::new()?;
    let listener = Listener::quic("main", hcm(lab, "{}"), &authority.server()?);
    let bench = Bench::behind(listener, Bootstrap::new(), lab, GATE).await?;
    bench.until("count", "exact").await?;
    let tls = authority.client_config(&["h3"], None)?;
    let mut client = h3::Client::connect(bench.main, &tls).await?;
    let mut stream = client.open(h2::request("GET", "https", "/hold/a")).await?;
    stream.finish().await?;
    bench.upstream.wait_held("a", 1, SOON).await?;
    lets_nothing_out(&bench, 12).await?;
    bench.upstream.release("a");
    stream.response().await?.expect(200)?;
    opens(&bench).await
}

/// Sends back every datagram.
async fn datagram_echo() -> Outcome<SocketAddr> {
    let socket = UdpSocket::bind(local(0)).await?;
    let address = socket.local_addr()?;
    tokio::spawn(async move {
        let mut buffer = [0; 1_500];
        while let Ok((length, client)) = socket.recv_from(&mut buffer).await {
            socket.send_to(&buffer[..length], client).await.ok(); // lost, as any datagram
        }
    });
    Ok(address)
}

/// CONNECT-UDP (RFC 9298).
async fn a_tunnel_of_datagrams_holds_until_it_ends(lab: &Lab) -> Outcome {
    let echo = datagram_echo().await?;
    let upgrade = "CONNECT-UDP";
    let tunnel = Route::connect("datagrams")
        .with("/route/upgrade_configs", json!([{ "upgrade_type": upgrade, "connect_config": {} }]));
    let main = Hcm::new("main").filter(lab.stream("{}").filter()).route(tunnel);
    let main = routes(main).with("/upgrade_configs", json!([{ "upgrade_type": upgrade }]));
    let bootstrap = Bootstrap::new().cluster(cluster::h1("datagrams", echo));
    let bench = Bench::upon(bootstrap, lab, GATE, main).await?;
    bench.until("count", "exact").await?;
    let mut client = h2::Client::connect(bench.main).await?;
    client.get("/echo").await?.expect(200)?; // by then Envoy has offered extended CONNECT
    let path = format!("/.well-known/masque/udp/{}/{}/", echo.ip(), echo.port());
    let mut request = h2::extended_connect("connect-udp", &path);
    request.headers_mut().insert("capsule-protocol", HeaderValue::from_static("?1"));
    let mut tunnel = client.open(request, false).await?;
    tunnel.head().await?.expect(200)?;
    // A capsule of type 0: the length, context 0, and the datagram.
    let capsule = b"\x00\x05\x00ping".as_slice();
    tunnel.send(capsule, false).await?;
    ensure_eq!(tunnel.piece().await?.as_deref(), Some(capsule), "the echo");
    lets_nothing_out(&bench, 12).await?;
    tunnel.send(capsule, false).await?;
    ensure_eq!(tunnel.piece().await?.as_deref(), Some(capsule), "the echo in the drain");
    tunnel.reset(Reason::CANCEL);
    opens(&bench).await
}
