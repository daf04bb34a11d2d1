//! Checks that the client's address comes from trusted peers only, and that the scheme stays safe
//! beside it.
//!
//! Envoy refuses `original_ip_detection_extensions` beside `use_remote_address`, and without
//! `use_remote_address` it keeps the peer's own `x-forwarded-proto`: so the early removal of that
//! header must be there.

use crate::checker::Checker;
use crate::file::ForwardedFor;
use crate::placement::{ClientAddress, Facts};
use crate::policy::ForwardedProto;

const FIELD: &str = "forwarded_for";

impl Checker {
    pub(super) fn forwarded_for(
        &mut self,
        from: &ForwardedFor,
        proto: Option<&ForwardedProto>,
        facts: &Facts<'_>,
    ) {
        match (facts.client_address, from) {
            (ClientAddress::Refused(why), _)
            | (ClientAddress::Xff(why), ForwardedFor::Header(_)) => {
                self.problem(FIELD, why);
                return;
            }
            _ => {}
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
