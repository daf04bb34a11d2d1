//! What is believed of clients' connections: PROXY protocol headers, and the client's address.

use super::read;

#[test]
fn a_load_balancer_of_layer_4_has_its_addresses_told() {
    let text = |placement: &str| {
        format!(
            "namespace: n\nplacement: {{{placement}}}\nforwarded_proto: {{presets: [nlb], trust: \
                {{peers: [10.0.0.0/16]}}}}\n"
        )
    };
    let proto = read(&text("gateway: {}")).expect("a policy").forwarded_proto.expect("a part");
    assert!(proto.forgets && proto.saved_in.is_none());
    assert!(proto.peer_info.is_some_and(|peer| peer.addresses && peer.headers.is_some()));
    let refused = read(&text("sidecar: {}")).expect_err("a sidecar");
    assert!(refused.contains("the app's own port"), "{refused}");
}

#[test]
fn the_clients_address_is_believed_of_trusted_peers_only() {
    let text = |placement: &str, from: &str, proto: &str| {
        format!("namespace: n\nplacement: {{{placement}}}\nforwarded_for: {from}\n{proto}\n")
    };
    const GCP: &str = "forwarded_proto: {presets: [gcp], trust: {peers: [10.0.0.0/16]}}";
    const EG: &str = "envoy_gateway: {gateway: g}";
    const HEADER: &str = "{header: CF-Connecting-IP}";
    for (placement, from) in [("envoy: {}", "xff"), ("envoy: {}", HEADER), (EG, "xff")] {
        read(&text(placement, from, GCP)).expect(placement);
    }
    for (placement, from, proto, word) in [
        (EG, HEADER, GCP, "believes such a header of every peer"),
        ("gateway: {}", "xff", GCP, "gatewayTopology.numTrustedProxies"),
        ("gateway_api: {gateway: g}", "xff", GCP, "gatewayTopology.numTrustedProxies"),
        ("sidecar: {}", "xff", GCP, "at the gateway"),
        ("waypoint: {gateway: g}", "xff", "", "at the gateway"),
        ("envoy: {}", "xff", "", "needs the trusted peers"),
        ("envoy: {}", "{header: x y}", GCP, "is not the name of a header"),
        ("envoy: {}", "{header: X-Forwarded-For}", GCP, "write `forwarded_for: xff`"),
        (
            "envoy: {}",
            "xff",
            "forwarded_proto: {presets: [gcp], trust: {identities: [{exact: a}]}}",
            "no identities",
        ),
        (
            "envoy: {}",
            "xff",
            "forwarded_proto: {presets: [gcp], trust: {peers: [10.0.0.1], identities: [{exact: \
                a}]}}",
            "no identities",
        ),
        (
            "envoy: {}",
            "xff",
            "forwarded_proto: {presets: [nlb], trust: {peers: [10.0.0.1]}}",
            "beside `nlb`",
        ),
        (
            "envoy: {}",
            "xff",
            "forwarded_proto: {presets: [gcp], trust: {peers: [10.0.0.1]}, fallback: keep}",
            "`keep`",
        ),
        ("envoy: {}", "hops", GCP, ""),
    ] {
        let refused = read(&text(placement, from, proto)).expect_err(word);
        assert!(refused.contains(word), "{word}: {refused}");
    }
}
