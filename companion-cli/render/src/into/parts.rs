//! What is merged into a bootstrap, with the names that must be free there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use laststream_base::yaml::{List, Map};
use laststream_policy::module_json::REQUEST_KEY;
use laststream_policy::placement::ADMIN_CLUSTER;
use laststream_policy::{Policy, PolicyProblem, TcpListener};

use super::document::{Document, Id};
use super::error::{IntoError, MergeError};
use crate::scheme::Scheme;
use crate::{envoy, gate, parts, shown_request, tcp};

const MODULE: &str = "laststream";
const GATE: &str = "laststream-gate";
const GATE_LISTENER: &str = "gate";

/// The parts of a policy, and those that a bootstrap lacks.
pub(super) struct Parts {
    /// The filters in front of all others.
    pub(super) filters: Vec<Map>,
    /// The gate's listener, if the policy has a gate.
    pub(super) gate: Option<Map>,
    /// The cluster of the admin interface, if the gate needs it and the bootstrap has none.
    pub(super) cluster: Option<Map>,
    /// The admin interface, if the gate needs it and the bootstrap has none.
    pub(super) admin: Option<Map>,
}

impl Parts {
    pub(super) fn of(policy: &Policy, document: &Document<'_>) -> Result<Self, IntoError> {
        let plain = envoy::placed(policy)?;
        can_be_merged(policy)?;
        let source = &policy.source(&|_, _| Err("Envoy reads the module from a file".into()))?;
        envoy::needs_file("module", source)?;
        let scheme = Scheme::module(policy);
        let module = parts::filter(&envoy::stream_role(policy, &scheme), policy, source);
        let filters = shown_request::filter(policy).into_iter().chain([module]).collect();
        let Some(port) = policy.gate_port else {
            return Ok(Self { filters, gate: None, cluster: None, admin: None });
        };
        let filter = parts::filter(&parts::gate_role(policy), policy, source);
        let gate = gate::listener(GATE_LISTENER, port, policy, filter);
        let [_, _, usual_admin] = envoy::addresses(plain)?;
        let admin = admin_address(document)?;
        are_free(document, port, admin)?;
        let address = admin.unwrap_or(usual_admin);
        let cluster = (!has_admin_cluster(document, address)?)
            .then(|| envoy::cluster(ADMIN_CLUSTER, address));
        let admin = admin
            .is_none()
            .then(|| Map::of("admin", Map::of("address", envoy::address(usual_admin))));
        Ok(Self { filters, gate: Some(gate), cluster, admin })
    }
}

/// The field `clusters` with one cluster.
pub(super) fn clusters(cluster: &Map) -> Map {
    Map::of("clusters", List::of(cluster.clone()))
}

/// Refuses parts of a policy that change more than the filters of a connection manager.
fn can_be_merged(policy: &Policy) -> Result<(), PolicyProblem> {
    let parts = [
        ("forwarded_proto", policy.forwarded_proto.is_some()),
        ("forwarded_for", policy.file.forwarded_for.is_some()),
        ("websockets", policy.file.websockets.is_some()),
        ("count.by", policy.by_envoy),
        ("drain.drain_timeout_jitter", policy.file.drain.drain_timeout_jitter.is_some()),
    ];
    let Some((part, _)) = parts.iter().find(|(_, is_there)| *is_there) else { return Ok(()) };
    let message = "changes connection managers or routes themselves, which `--into` leaves alone: \
        copy these parts from `laststream render envoy`, or take the section out";
    Err(PolicyProblem::new(*part, message))
}

/// Whether a filter was merged before.
pub(super) fn is_our_filter(document: &Document<'_>, filter: Id) -> bool {
    let states = document.field(filter, "typed_config.on_request_headers");
    let first = states.and_then(|states| document.items(states).first());
    let key = first.and_then(|state| document.text_of(*state, "object_key"));
    let is_module = document.text_of(filter, "name") == Some(MODULE)
        && document.field(filter, "typed_config").is_some();
    is_module || key == Some(REQUEST_KEY)
}

/// Whether a network filter is the one that counts connections.
pub(super) fn counts_connections(document: &Document<'_>, filter: Id) -> bool {
    let prefix = document.text_of(filter, "typed_config.stat_prefix");
    tcp::is_filter(document.text_of(filter, "name"), prefix)
}

/// The lists of network filters with a TCP proxy, and whether the policy counts their connections.
pub(super) fn tcp_chains(
    document: &Document<'_>,
    listeners: Id,
    counted: &[TcpListener],
) -> Result<Vec<(Id, bool)>, MergeError> {
    let mut chains = Vec::new();
    let mut missing: Vec<&TcpListener> = counted.iter().collect();
    for listener in document.items(listeners) {
        let name = document.text_of(*listener, "name");
        let port = document.text_of(*listener, "address.socket_address.port_value");
        let is_this = |wanted: &TcpListener| match wanted {
            TcpListener::Name(wanted) => name == Some(wanted),
            TcpListener::Port(wanted) => port.and_then(|text| text.parse().ok()) == Some(*wanted),
        };
        let is_counted = counted.iter().any(is_this);
        document.descend(*listener, &mut |id| {
            let filters = document.field(id, "filters");
            let is_proxy = |filter: &Id| document.text_of(*filter, "name") == Some(tcp::PROXY);
            let filters = filters.filter(|list| document.items(*list).iter().any(is_proxy));
            if let Some(filters) = filters {
                missing.retain(|wanted| !is_this(wanted));
                chains.push((filters, is_counted));
            }
        });
    }
    let Some(missing) = missing.first() else { return Ok(chains) };
    let missing = match missing {
        TcpListener::Port(port) => format!("on port {port}"),
        TcpListener::Name(name) => format!("named `{name}`"),
    };
    Err(MergeError::of(format!(
        "has no listener {missing} with a filter `{}`, which `count.tcp` names",
        tcp::PROXY
    )))
}

/// Whether a listener is the gate's: it has its name and its filter.
pub(super) fn is_gate_listener(document: &Document<'_>, listener: Id) -> bool {
    document.text_of(listener, "name") == Some(GATE_LISTENER) && has_gate_filter(document, listener)
}

fn has_gate_filter(document: &Document<'_>, listener: Id) -> bool {
    let mut has_filter = false;
    document.descend(listener, &mut |id| {
        let filters = document.field(id, "http_filters").into_iter();
        let mut filters = filters.flat_map(|filters| document.items(filters));
        has_filter |= filters.any(|filter| document.text_of(*filter, "name") == Some(GATE));
    });
    has_filter
}

/// The address at which the admin interface of the bootstrap is reached from the same machine.
fn admin_address(document: &Document<'_>) -> Result<Option<SocketAddr>, MergeError> {
    let Some(admin) = document.field(document.root(), "admin") else { return Ok(None) };
    let address = socket_address(document, admin, "address").map(|(ip, port)| {
        let local = match ip {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        SocketAddr::from((local, port))
    });
    address.filter(|address| address.port() > 0).map(Some).ok_or_else(|| MergeError {
        line: Some(document.line(admin)),
        message: "`admin` has no IP address with a port, which the gate needs: write one, such as \
            `address: {socket_address: {address: 127.0.0.1, port_value: 9901}}`"
            .into(),
    })
}

fn socket_address(document: &Document<'_>, id: Id, path: &str) -> Option<(IpAddr, u16)> {
    let socket = document.field(document.field(id, path)?, "socket_address")?;
    let port = document.text_of(socket, "port_value")?.parse().ok()?;
    Some((document.text_of(socket, "address")?.parse().ok()?, port))
}

/// Checks that the name and the port of the gate are free.
fn are_free(
    document: &Document<'_>,
    port: u16,
    admin: Option<SocketAddr>,
) -> Result<(), MergeError> {
    let conflict =
        |id: Id, message: String| Err(MergeError { line: Some(document.line(id)), message });
    let another = "write another one into the policy, such as `gate: {port: 16092}`";
    if let (Some(admin), Some(id)) = (admin, document.field(document.root(), "admin"))
        && admin.port() == port
    {
        return conflict(id, format!("port {port} is that of `admin`, and the gate's: {another}"));
    }
    let Some(listeners) = document.field(document.root(), "static_resources.listeners") else {
        return Ok(());
    };
    for listener in document.items(listeners) {
        if is_gate_listener(document, *listener) {
            continue;
        }
        let name = document.text_of(*listener, "name").unwrap_or_default();
        if name == GATE_LISTENER {
            let message = format!("the listener `{name}` has the name of the gate's: rename it");
            return conflict(*listener, message);
        }
        let mut has_port = false;
        document.descend(*listener, &mut |id| {
            let port_value = document.text_of(id, "socket_address.port_value");
            has_port |= port_value.and_then(|text| text.parse().ok()) == Some(port);
        });
        if has_gate_filter(document, *listener) {
            let message = format!(
                "the listener `{name}` has the gate's filter: take it out, the gate gets a \
                    listener of its own"
            );
            return conflict(*listener, message);
        }
        if has_port {
            let message = format!("port {port} is that of the listener `{name}`, and the gate's");
            return conflict(*listener, format!("{message}: {another}"));
        }
    }
    Ok(())
}

/// Whether the bootstrap has the cluster of the admin interface. One of its name that leads
/// elsewhere is an error.
fn has_admin_cluster(document: &Document<'_>, admin: SocketAddr) -> Result<bool, MergeError> {
    let clusters = document.field(document.root(), "static_resources.clusters");
    let mut clusters = clusters.into_iter().flat_map(|list| document.items(list));
    let is_named = |id: &&Id| document.text_of(**id, "name") == Some(ADMIN_CLUSTER);
    let Some(cluster) = clusters.find(is_named) else { return Ok(false) };
    let mut leads_there = false;
    document.descend(*cluster, &mut |id| {
        let address = socket_address(document, id, "address");
        leads_there |= address.is_some_and(|(ip, port)| {
            let is_same = ip == admin.ip() || ip.is_loopback() && admin.ip().is_loopback();
            is_same && port == admin.port()
        });
    });
    if leads_there {
        return Ok(true);
    }
    let message = format!(
        "the cluster `{ADMIN_CLUSTER}` does not lead to the admin interface on {admin}, which the \
            gate asks under this name: correct it, or rename it"
    );
    Err(MergeError { line: Some(document.line(*cluster)), message })
}
