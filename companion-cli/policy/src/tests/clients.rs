//! Trust in clients' connections: PROXY protocol headers, and the client's address.

use super::read;

const GCP: &str = "forwarded_proto: {presets: [gcp], trust: {peers: [10.0.0.0/16]}}";

#[test]
fn a_layer_4_load_balancer_needs_the_connections_addresses() {
    let proto = read(&GCP.replace("gcp", "nlb")).expect("a policy").forwarded_proto;
    let proto = proto.expect("a part");
    assert!(proto.forgets && proto.saved_in.is_none());
    assert!(proto.peer_info.is_some_and(|peer| peer.addresses && peer.headers.is_some()));
}

#[test]
fn trusted_peers_may_send_the_clients_address() {
    const GATEWAY: &str = "envoy_gateway: {gateway: g}";
    const HEADER: &str = "{header: CF-Connecting-IP}";
    for (placement, from) in [("envoy: {}", "xff"), ("envoy: {}", HEADER), (GATEWAY, "xff")] {
        let text =
            format!("namespace: n\nplacement: {{{placement}}}\nforwarded_for: {from}\n{GCP}\n");
        read(&text).expect(placement);
    }
}
