//! The protocols of the test clients and the upstream, through a plain Envoy.

use std::net::Ipv4Addr;

use h2::Reason;

use crate::cases::stage::{ACTIVE, SOON, Stage, routes};
use crate::lab::Lab;
use kit::certificates::Authority;
use kit::h1::{Connect, Ended};
use kit::h2 as http2;
use kit::prelude::*;
use kit::websocket::WebSocket;

const PEER: &str = "x-direct-peer";

/// A connection manager that sends the direct peer's address to the upstream in a header.
fn tells_the_peer() -> Hcm {
    let value = json!({ "key": PEER, "value": "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%" });
    let mutation =
        json!([{ "append": { "header": value, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD" } }]);
    let hcm = Hcm::new("main")
        .use_remote_address(true, 0)
        .filter(filters::direct_peer())
        .filter(filters::header_mutation(mutation));
    hcm.route(Route::prefix("/").cluster("app"))
}

async fn peer_seen(upstream: &Upstream, connect: Connect) -> Outcome<Option<String>> {
    connect
        .open()
        .await?
        .request(&Request::get("/echo").header("x-forwarded-for", "9.9.9.9"))
        .await?
        .expect(200)?;
    Ok(upstream.last()?.header(PEER))
}

pub(super) async fn knows_the_direct_peer(lab: &Lab) -> Outcome {
    let upstream = Upstream::start().await?;
    let plain = Listener::new("plain", tells_the_peer());
    let behind = Listener::new("behind", tells_the_peer()).proxy_protocol();
    let config = Bootstrap::new()
        .cluster(cluster::h1("app", upstream.h1()))
        .listener(plain)
        .listener(behind)
        .build();
    let envoy = Envoy::start(&lab.envoy, config, Options::default()).await?;
    let (plain, behind) = (envoy.address("plain").await?, envoy.address("behind").await?);
    let peer = Ipv4Addr::new(127, 0, 0, 7);
    ensure_eq!(
        peer_seen(&upstream, Connect::to(plain).from(peer.into())).await?,
        Some("127.0.0.7".into()),
        "plain"
    );
    for claimed in ["v1 1.2.3.4:443 from 8.8.4.4", "v2 1.2.3.4:443 from 8.8.4.4"] {
        let connect = Connect::to(behind).from(peer.into()).proxied(claimed)?;
        let seen = peer_seen(&upstream, connect).await?;
        ensure_eq!(seen, Some("127.0.0.7".into()), "behind PROXY protocol");
    }
    Ok(())
}

pub(super) async fn holds_and_releases(lab: &Lab) -> Outcome {
    let hcm = Hcm::new("main").route(Route::prefix("/").cluster("app").timeout("0s"));
    let Stage { upstream, envoy, main } = Stage::with(lab, hcm).await?;
    let mut waiting = Client::connect(main).await?;
    waiting.send(&Request::get("/hold/a").bytes()).await?;
    let mut rude = Client::connect(main).await?.patience(SOON);
    rude.send(&Request::get("/hold/a").bytes()).await?;
    upstream.wait_held("a", 2, SOON).await?;
    envoy.wait_for_stat(ACTIVE, 2, SOON).await?;
    rude.reset()?;
    upstream.wait_held("a", 1, SOON).await?;
    upstream.release("a");
    ensure_eq!(waiting.response("GET").await?.text(), "released", "the answer");
    envoy.wait_for_stat(ACTIVE, 0, SOON).await
}

pub(super) async fn talks_http2(lab: &Lab) -> Outcome {
    let hcm = Hcm::new("main").route(Route::prefix("/").cluster("app-h2").timeout("0s"));
    let Stage { upstream, envoy: _envoy, main } = Stage::with(lab, hcm).await?;
    let mut client = http2::Client::connect(main).await?;
    client.request(http2::request("GET", "https", "/echo"), "").await?.expect(200)?;
    ensure_eq!(upstream.last()?.scheme, Some("https".into()), "scheme at the upstream");
    let held = client.open(http2::get("/hold/b"), true).await?;
    upstream.wait_held("b", 1, SOON).await?;
    held.reset(Reason::CANCEL);
    upstream.wait_held("b", 0, SOON).await?;
    let echoed =
        client.request(http2::request("POST", "http", "/grpc"), vec![b'x'; 100_000]).await?;
    ensure_eq!(
        (echoed.body.len(), echoed.trailers.get("grpc-status")),
        (100_000, Some("0".into())),
        "body and trailer"
    );
    client.go_away().await?;
    let mut lost = http2::Client::connect(main).await?;
    let stream = lost.open(http2::get("/stream/5/c"), true).await?;
    upstream.wait_held("c", 1, SOON).await?;
    lost.lose(Ended::Reset).await?;
    drop(stream);
    upstream.wait_held("c", 0, SOON).await?;
    Ok(())
}

pub(super) async fn opens_websockets_and_tunnels(lab: &Lab) -> Outcome {
    let stage = Stage::with(lab, routes(Hcm::new("main"))).await?;
    let mut socket = WebSocket::open(stage.main, "/ws").await?;
    socket.echo("hello").await?;
    socket.echo(&"long ".repeat(20_000)).await?;
    socket.close(1000).await?;
    WebSocket::open(stage.main, "/ws").await?.reset()?;
    let mut tunnel = Client::connect(stage.main).await?;
    tunnel.send(&Request::new("CONNECT", "far.local:443").host("far.local:443").bytes()).await?;
    let (answer, _) = tunnel.response_head("CONNECT").await?;
    ensure_eq!(answer.status, 200, "CONNECT");
    tunnel.send(b"through the tunnel").await?;
    ensure_eq!(tunnel.wire.exactly(18).await?.as_ref(), b"through the tunnel", "the echo");
    Ok(())
}

pub(super) async fn shows_client_certificates(lab: &Lab) -> Outcome {
    let authority = Authority::new()?;
    let (server, client) =
        (authority.server()?, authority.client("spiffe://cluster.local/ns/a/sa/b")?);
    let hcm = Hcm::new("main")
        .route(Route::prefix("/").cluster("app"))
        .with("/forward_client_cert_details", json!("SANITIZE_SET"));
    let hcm = hcm.with("/set_current_client_cert_details", json!({ "uri": true }));
    let listener = Listener::new("main", hcm).mutual_tls(&server, &authority);
    let Stage { upstream, envoy: _envoy, main } =
        Stage::behind(lab, listener, Options::default()).await?;
    let known = authority.client_config(&["http/1.1"], Some(&client))?;
    Connect::to(main).tls(known, "localhost").open().await?.get("/echo").await?.expect(200)?;
    let seen = upstream.last()?.header("x-forwarded-client-cert").unwrap_or_default();
    ensure!(seen.contains("spiffe://cluster.local/ns/a/sa/b"), "{seen}");
    let unknown = authority.client_config(&["http/1.1"], None)?;
    let refused =
        async { Connect::to(main).tls(unknown, "localhost").open().await?.get("/echo").await };
    ensure!(refused.await.is_err(), "a client without a certificate got an answer");
    let over_h2 = authority.client_config(&["h2"], Some(&client))?;
    http2::Client::over(Connect::to(main).tls(over_h2, "localhost"))
        .await?
        .get("/echo")
        .await?
        .expect(200)?;
    Ok(())
}
