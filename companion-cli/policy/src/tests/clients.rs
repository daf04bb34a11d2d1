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
fn trusted_peers_of_envoy_gateway_may_send_the_clients_address() {
    let gateway = "namespace: n\nplacement: {envoy_gateway: {gateway: g}}\nforwarded_for: xff\n";
    read(&format!("{gateway}{GCP}")).expect("a policy");
}
