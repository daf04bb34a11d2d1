//! Rendered filters stay safe when the module cannot be fetched or has died.

use std::net::SocketAddr;
use std::sync::Arc;

use laststream_render::Kind;
use rustls::ClientConfig;
use serde_json::Value;

use super::mesh::{Delivery, GATEWAY, Proxy, SIDECAR};
use super::rendered::{by_module, filter, yaml};
use crate::cases::stage::SOON;
use crate::lab::{Lab, test_deaths_module};
use kit::certificates::Authority;
use kit::forwarded_proto::listeners::Certificates;
use kit::h1::Connect;
use kit::prelude::*;

const PROTO: &str = "x-forwarded-proto";
const CLAIMS: [&str; 4] = ["https", "HTTPS", "https, http", "wss"];

/// With FAIL_OPEN, the scheme is the connection's, and never the peer's claim.
pub(super) async fn without_its_module_a_proxy_trusts_no_header(lab: &Lab) -> Outcome {
    let (sidecar, gateway) = (filter("sidecar")?, by_module("gateway-behind-alb")?);
    let module = test_deaths_module()?;
    for delivery in [Delivery::AllowAll, Delivery::Module(&module)] {
        for (places, filter, listener) in [(SIDECAR, &sidecar, "in"), (GATEWAY, &gateway, "main")] {
            let proxy = Proxy::start(lab, places, filter, &[], delivery, None).await?;
            let to = proxy.envoy.address(listener).await?;
            if matches!(delivery, Delivery::Module(file) if file == module) {
                kill(|| Connect::to(to), &proxy.envoy).await?;
            }
            claims_nothing(to, &proxy.upstream)
                .await
                .with_context(|| format!("{listener} with {delivery:?}"))?;
        }
    }
    Ok(())
}

/// Over mTLS the connection says nothing about the client's scheme, so the rendered filter leaves
/// http.
pub(super) async fn without_its_module_a_sidecar_makes_no_http_https(lab: &Lab) -> Outcome {
    let authority = Authority::new()?;
    let certificates = Certificates { server: authority.server()?, authority };
    let module = test_deaths_module()?;
    let usual = sidecar("http")?;
    for delivery in [Delivery::AllowAll, Delivery::Module(&module)] {
        let proxy = strict(lab, &usual, delivery, &certificates).await?;
        let peers = Peers::of(&proxy, &certificates).await?;
        if matches!(delivery, Delivery::Module(_)) {
            kill(|| peers.gateway(), &proxy.envoy).await?;
        }
        peers.get("http", ["http"; 2]).await.with_context(|| format!("{delivery:?}"))?;
    }
    for (fallback, stranger) in [("http", "http"), ("connection", "https")] {
        let delivery = Delivery::Module(&lab.module);
        let proxy = strict(lab, &sidecar(fallback)?, delivery, &certificates).await?;
        let peers = Peers::of(&proxy, &certificates).await?;
        peers.get(stranger, ["http", "https"]).await.context(fallback)?;
    }
    Ok(())
}

/// A sidecar whose inbound listener requires client certificates.
async fn strict(
    lab: &Lab,
    filter: &Value,
    delivery: Delivery<'_>,
    certificates: &Certificates,
) -> Outcome<Proxy> {
    Proxy::start(lab, SIDECAR, filter, &[], delivery, Some(certificates)).await
}

fn sidecar(fallback: &str) -> Outcome<Value> {
    const FALLBACK: &str = "fallback: http";
    let policy = super::read("sidecar/policy.yaml")?;
    ensure!(policy.contains(FALLBACK), "the fallback in {policy}");
    yaml(Kind::EnvoyFilter, &policy.replace(FALLBACK, &format!("fallback: {fallback}")))
}

/// Kills the VMs of both workers.
async fn kill(connect: impl Fn() -> Connect, envoy: &Envoy) -> Outcome {
    let die = Request::get("/echo").header("x-laststream-die", "panic");
    wait_for(SOON, "the VMs to die", async || {
        connect().open().await?.send(&die.bytes()).await?; // there may be no answer
        let deaths = envoy.log().matches("panicked at").count();
        ensure!(deaths >= 2, "{deaths} VMs are dead");
        Ok(())
    })
    .await
}

async fn claims_nothing(to: SocketAddr, upstream: &Upstream) -> Outcome {
    for peer in [[127, 0, 0, 1], [127, 0, 0, 9]] {
        for claim in CLAIMS {
            let connect = Connect::to(to).from(peer.into());
            gets(connect, claim, upstream, "http").await.with_context(|| format!("{peer:?}"))?;
        }
    }
    Ok(())
}

/// The upstream gets this scheme for a claim in the header and in a forged copy of the saved one.
async fn gets(connect: Connect, claim: &str, upstream: &Upstream, expected: &str) -> Outcome {
    const SAVED: &str = "x-laststream-forwarded-proto";
    let request = Request::get("/").header(PROTO, claim).header(SAVED, claim);
    connect.open().await?.request(&request).await?.expect(200)?;
    let seen = upstream.last()?;
    ensure_eq!(seen.header(PROTO), Some(expected.into()), "the scheme for {claim:?}");
    ensure_eq!(seen.header(SAVED), None, "the saved header");
    Ok(())
}

/// Peers of a sidecar over mTLS.
struct Peers<'a> {
    to: SocketAddr,
    upstream: &'a Upstream,
    gateway: Arc<ClientConfig>,
    stranger: Arc<ClientConfig>,
}

impl<'a> Peers<'a> {
    async fn of(proxy: &'a Proxy, certificates: &Certificates) -> Outcome<Self> {
        let client = |account: &str| {
            let uri = format!("spiffe://cluster.local/ns/istio-system/sa/{account}");
            let identity = certificates.authority.client(&uri)?;
            certificates.authority.client_config(&["http/1.1"], Some(&identity))
        };
        Ok(Self {
            to: proxy.envoy.address("in").await?,
            upstream: &proxy.upstream,
            gateway: client("istio-ingressgateway")?,
            stranger: client("another")?,
        })
    }

    fn gateway(&self) -> Connect {
        Connect::to(self.to).tls(self.gateway.clone(), "localhost")
    }

    /// Checks the scheme at the upstream, for a stranger's claims and for the gateway's claims of
    /// http and of https.
    async fn get(&self, stranger: &str, gateway: [&str; 2]) -> Outcome {
        let [http, https] = gateway;
        let strangers = || Connect::to(self.to).tls(self.stranger.clone(), "localhost");
        for (connect, said, expected) in [
            (self.gateway(), "http", http),
            (self.gateway(), "https", https),
            (self.gateway(), "", "http"),
            (strangers(), "http", stranger),
            (strangers(), "https", stranger),
        ] {
            gets(connect, said, self.upstream, expected).await?;
        }
        Ok(())
    }
}
