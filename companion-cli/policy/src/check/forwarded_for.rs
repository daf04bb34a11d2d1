//! Checks that the client's address comes from trusted peers only, and that the scheme stays safe
//! beside it.
//!
//! Envoy refuses `original_ip_detection_extensions` beside `use_remote_address`, and without
//! `use_remote_address` it keeps the peer's own `x-forwarded-proto`: so the early removal of that
//! header must be there.

use super::Checker;
use crate::ForwardedProto;
use crate::file::{ForwardedFor, Placement};

const FIELD: &str = "forwarded_for";

impl Checker {
    pub(super) fn forwarded_for(
        &mut self,
        from: &ForwardedFor,
        proto: Option<&ForwardedProto>,
        placement: &Placement,
    ) {
        if let Some(why) = refused_place(from, placement) {
            self.problem(FIELD, why);
        }
        if let ForwardedFor::Header(name) = from {
            self.client_header(name);
        }
        let Some(proto) = proto else {
            self.problem(
                FIELD,
                "needs the trusted peers of `forwarded_proto`: name the load balancer there",
            );
            return;
        };
        for (is_wrong, why) in [
            (
                proto.peers.is_empty() || proto.json["trust"].get("identities").is_some(),
                "needs address ranges in `forwarded_proto.trust.peers`, and no identities: Envoy \
                    compares nothing but addresses",
            ),
            (
                proto.destination_ports.is_some(),
                "does not work beside `nlb`: the PROXY protocol header names the client already, \
                    and Envoy would look for trusted peers among the clients that it names",
            ),
            (
                *from == ForwardedFor::Xff && has_preset(proto, "azure_app_gateway"),
                "`xff` does not work with `azure_app_gateway`: it writes ports into \
                    x-forwarded-for, which Envoy does not read there",
            ),
            (
                !proto.forgets,
                "is not safe with `keep` in `forwarded_proto`: Envoy then keeps the \
                    x-forwarded-proto of every peer. Write `connection` or `http`",
            ),
        ] {
            if is_wrong {
                self.problem(FIELD, why);
            }
        }
    }

    fn client_header(&mut self, name: &str) {
        const PATH: &str = "forwarded_for.header";
        if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
            self.problem(PATH, format!("`{name}` is not the name of a header"));
        }
        if name.eq_ignore_ascii_case("x-forwarded-for") {
            self.problem(PATH, "`x-forwarded-for` is a list: write `forwarded_for: xff`");
        }
    }
}

fn has_preset(proto: &ForwardedProto, name: &str) -> bool {
    proto.json["presets"].as_array().is_some_and(|presets| presets.iter().any(|one| one == name))
}

/// The reason why Envoy cannot take the client's address from this header at this placement.
fn refused_place(from: &ForwardedFor, placement: &Placement) -> Option<&'static str> {
    match (placement, from) {
        (Placement::Envoy(_), _) | (Placement::EnvoyGateway(_), ForwardedFor::Xff) => None,
        (Placement::EnvoyGateway(_), ForwardedFor::Header(_)) => Some(
            "Envoy believes such a header of every peer, and Envoy Gateway has no filter chain for \
                the trusted ones alone: write `xff`",
        ),
        (Placement::Gateway(_) | Placement::GatewayApi(_), _) => Some(
            "an Istio gateway has `use_remote_address: true`, which no EnvoyFilter can merge away, \
                and Envoy then refuses the listener. Take it out; \
                `gatewayTopology.numTrustedProxies` in `proxy.istio.io/config` makes Istio count \
                hops in x-forwarded-for, of every peer",
        ),
        (Placement::Sidecar(_) | Placement::Waypoint(_), _) => Some(
            "is for the proxy that meets the load balancer: take it out here, and find the \
                client's address at the gateway",
        ),
    }
}
