//! Warnings about policies that are valid and probably not intended.

use std::net::IpAddr;

use laststream_base::istio::ROOT_NAMESPACE;
use laststream_base::versions::{self, ISTIO};
use serde_json::Value;

use crate::check::end::has_other_rules;
use crate::file::LongLived;
use crate::policy::Policy;

/// The longest prefixes, of IPv4 and of IPv6, that are too wide for a load balancer's own
/// addresses. No VPC of AWS is larger than a /16, and a site has a /48 of IPv6: a wider range
/// always holds nodes and pods, too.
const NARROWEST_WIDE: [u8; 2] = [15, 47];

pub(super) fn of(policy: &Policy) -> Vec<String> {
    let (file, place) = (&policy.file, policy.placement.facts());
    let class = place.class;
    let (drain, proto) = (&file.drain, policy.forwarded_proto.as_ref());
    let (range, nearest) = (ISTIO.range(), policy.istio.and_then(|istio| ISTIO.instead_of(istio)));
    let times = [drain.longest_request, drain.deadline, drain.grace_period];
    let is_timed = policy.gate_port.is_none()
        && policy.placement.is_istio()
        && times.iter().any(Option::is_some);
    let is_elsewhere =
        policy.namespace.as_deref().is_some_and(|namespace| namespace != ROOT_NAMESPACE);
    let exempts_none = policy.long_lived == LongLived::Exempt
        && drain.long_lived_after.is_none()
        && !policy.count.as_ref().is_some_and(|count| has_other_rules(count, &[]));
    let wide = proto.into_iter().flat_map(|proto| &proto.peers).filter(|range| is_wide(range));
    let when = |is_so: bool, text: &str| is_so.then(|| text.to_owned());
    [
        place.warning.map(str::to_owned),
        nearest
            .map(versions::text)
            .map(|nearest| format!("istio: {range} are known: it is rendered as for {nearest}")),
        when(is_timed && file.gate.enabled == Some(false), NO_GATE),
        when(is_timed && file.gate.enabled != Some(false), NO_FILE),
        when(class.is_some() && is_elsewhere, CLASS),
        class
            .filter(|_| policy.gate_port.is_some())
            .map(|class| format!("placement: {}", OLDEST.replace("CLASS", class))),
        when(
            place.has_app_calls && proto.is_some_and(|proto| usual_fallback(&proto.json)),
            FALLBACK,
        ),
        when(exempts_none, EXEMPTS_NONE),
    ]
    .into_iter()
    .flatten()
    .chain(wide.map(|range| format!("forwarded_proto.trust.peers: `{range}` {WIDE}")))
    .collect()
}

const CLASS: &str = "namespace: is not `istio-system`, where istiod looks for what is meant for a \
    class: anywhere else the rendered files have no effect. Leave it out, unless your istiod is in \
    this namespace";

fn usual_fallback(proto: &Value) -> bool {
    proto.get("fallback").is_none_or(|fallback| fallback == "connection")
}

const FALLBACK: &str = "forwarded_proto.fallback: is `connection`, and connections in a mesh have \
    TLS: the requests of peers that are not trusted come out as https. Write `http`, unless the \
    app means the connection to its own proxy";

const EXEMPTS_NONE: &str = "drain.long_lived: is `exempt`, and no stream is long-lived: nothing is \
    set under `count.long_lived`, and there is no `drain.long_lived_after`. For WebSockets and \
    event streams write `end: {websocket: exempt, event_stream: exempt}`";

const OLDEST: &str = "istiod takes only the oldest ConfigMap of a class. If `kubectl get \
    configmap -n istio-system -l gateway.istio.io/defaults-for-class=CLASS` shows another one, \
    such as that of the value `gatewayClasses` of istiod's chart, put what is rendered into that \
    one";

const NO_GATE: &str = "drain: there is no gate (`gate: {enabled: false}`), so a pod that stops \
    waits for no request; these times only keep Envoy from cutting requests when a listener is \
    replaced. Take them out, or the line about the gate";

const NO_FILE: &str = "drain: there is no gate, because the module is no file in the waypoint, \
    so a pod that stops waits for no request; these times only keep Envoy from cutting requests \
    when a listener is replaced. Take them out, or write `delivery: image_volume`";

const WIDE: &str = "is wider than any load balancer's own addresses, so nodes and pods are in it. \
    With `externalTrafficPolicy: Cluster` every client that goes around the load balancer comes \
    from a node's address: name the load balancer's subnets only";

/// Whether a range is too wide for the addresses of a load balancer. The range of all addresses has
/// another warning, and the loopback interface has only addresses of this host.
pub fn is_wide(range: &str) -> bool {
    let Some((address, length)) = range.split_once('/') else { return false };
    let (Ok(address), Ok(length)) = (address.parse::<IpAddr>(), length.parse::<u8>()) else {
        return false;
    };
    let [v4, v6] = NARROWEST_WIDE;
    match address.to_canonical() {
        own if own.is_loopback() && length >= 8 => false,
        IpAddr::V4(_) if address.is_ipv4() => (1..=v4).contains(&length),
        IpAddr::V4(_) if length >= 96 => (97..=96 + v4).contains(&length),
        _ => (1..=v6).contains(&length),
    }
}

#[cfg(test)]
mod tests {
    use super::is_wide;

    #[test]
    fn ranges_wider_than_a_network_are_wide() {
        const WIDE: &str = "10.0.0.0/8 172.16.0.0/12 104.16.0.0/13 128.0.0.0/1 \
            ::ffff:10.0.0.0/104 fc00::/7 2400:cb00::/32";
        const OTHERS: &str = "127.0.0.0/8 10.0.0.0/16 35.191.0.0/16 10.0.0.1 ::1 2001:db8::/48 \
            ::ffff:10.0.0.0/112 0.0.0.0/0 ::/0 x/8";
        for range in WIDE.split(' ') {
            assert!(is_wide(range), "{range}");
        }
        for range in OTHERS.split(' ') {
            assert!(!is_wide(range), "{range}");
        }
    }
}
