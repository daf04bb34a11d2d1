//! Pieces of Envoy's configuration that several kinds share.

use laststream_filter::forwarded::FORWARDED_PROTO;
use serde_json::Value;

use super::placement::{self, Leaves};
use laststream_base::yaml::{List, Map, Node};
use laststream_policy::file::FailurePolicy;
use laststream_policy::module_json;
use laststream_policy::{ModuleLocation, PeerInfo, Policy};

pub(super) const HCM: &str = "envoy.filters.network.http_connection_manager";
pub(super) const HCM_TYPE: &str = concat!(
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.",
    "HttpConnectionManager"
);
pub(super) const WASM_TYPE: &str = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm";
const RBAC_TYPE: &str = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC";
const ROUTER_TYPE: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
pub(super) const FILTER_STATE_TYPE: &str =
    "type.googleapis.com/envoy.extensions.filters.http.set_filter_state.v3.Config";
/// The usual name of the filter that writes filter state.
pub(super) const STATE_FILTER: &str = "envoy.filters.http.set_filter_state";
const EARLY_TYPE: &str = concat!(
    "type.googleapis.com/",
    "envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation"
);
const STRING_TYPE: &str = "type.googleapis.com/google.protobuf.StringValue";

const OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// `typed_extension_protocol_options` of a cluster: its protocol, and what all protocols share.
pub(super) fn protocol_options(protocol: &'static str, common: Option<Map>) -> Map {
    let options = Map::of("@type", format!("type.googleapis.com/{OPTIONS}"))
        .with_some("common_http_protocol_options", common)
        .with("explicit_http_config", Map::of(protocol, Map::new()));
    Map::of(OPTIONS, options)
}

pub(super) struct Role<'a> {
    /// The filter's name, and the plugin's.
    pub(super) name: &'a str,
    pub(super) configuration: Value,
    pub(super) is_gate: bool,
}

/// The gate's role, on a proxy with one laststream.
pub(super) fn gate_role(policy: &Policy) -> Role<'static> {
    Role { name: "laststream-gate", configuration: module_json::gate(policy), is_gate: true }
}

pub(super) fn filter(role: &Role<'_>, policy: &Policy, source: &ModuleLocation) -> Map {
    typed(role.name, wasm(role, policy, source))
}

pub(super) fn wasm(role: &Role<'_>, policy: &Policy, source: &ModuleLocation) -> Map {
    let (failure_policy, why) = failure_policy(role, policy, source);
    let vm = Map::of("runtime", "envoy.wasm.runtime.v8")
        .note(
            "The same for the counter and the gate: with another one they cannot talk to each \
            other.",
        )
        .with_some("vm_id", placement::facts(policy).vm_id);
    let vm = if role.is_gate {
        vm.note(
            "Another configuration gives it a separate VM: what kills the counter must not \
            answer for it.",
        )
        .with("configuration", string("gate".into()))
    } else {
        vm
    };
    let config = Map::of("name", role.name)
        .note(why)
        .with("failure_policy", failure_policy)
        .with("vm_config", vm.with("code", code(source)))
        .with("configuration", string(Node::Block(module_json::text(&role.configuration))));
    Map::of("@type", WASM_TYPE).with("config", config)
}

pub(super) const WHY_CLOSED: &str = "As the policy wants it: without the module every request is \
    refused, even while its registry is down.";
pub(super) const WHY_RELOAD: &str = "As the policy wants it: a VM that fails is loaded again; a \
    module that cannot be fetched is 403 for every request.";

fn failure_policy(
    role: &Role<'_>,
    policy: &Policy,
    source: &ModuleLocation,
) -> (&'static str, String) {
    let is_file = source.path().is_some();
    let is_of_frames = role.configuration["role"] == "websocket";
    let (value, why) = match policy.failure_policy {
        _ if role.is_gate => (
            "FAIL_RELOAD",
            "Never open: without the module the gate refuses, whatever the policy says of \
                requests, and hooks run to their time-out.",
        ),
        _ if is_of_frames && is_file => ("FAIL_RELOAD", "A VM that fails is loaded again."),
        _ if is_of_frames => (
            "FAIL_OPEN",
            "Without the module WebSockets pass, and end with 1006. Whatever the policy says of \
                requests: the frame filter guards nothing.",
        ),
        FailurePolicy::Open => return ("FAIL_OPEN", fails_open(role, policy)),
        FailurePolicy::Closed => ("FAIL_CLOSED", WHY_CLOSED),
        FailurePolicy::Reload if is_file => (
            "FAIL_RELOAD",
            "A VM that fails is loaded again; the code is a local file, so nothing can be in the \
                way.",
        ),
        FailurePolicy::Reload => ("FAIL_RELOAD", WHY_RELOAD),
    };
    (value, why.to_owned())
}

/// The comment on `FAIL_OPEN`: the handling of requests without the module.
fn fails_open(role: &Role<'_>, policy: &Policy) -> String {
    const PASSES: &str =
        "A module that cannot be fetched, or has failed, lets requests pass, uncounted";
    const ELSE: &str =
        "Closed, or reloaded, a failed fetch is 403 for everything until the next change";
    let restores = role.configuration.get("forwarded_proto").is_some();
    let how = match policy.forwarded_proto.as_ref().filter(|_| restores) {
        None => "",
        Some(proto) if proto.forgets && placement::facts(policy).leaves == Leaves::Http => {
            " and with http in x-forwarded-proto, which the early header mutation writes over what \
                the peer sent"
        }
        Some(proto) if proto.forgets => {
            " and with the connection's scheme, because the early header mutation removes what the \
                peer sent"
        }
        Some(_) => {
            return format!(
                "{PASSES}. `keep` in the policy then leaves every peer's own x-forwarded-proto \
                    wherever Envoy does not overwrite it. {ELSE}."
            );
        }
    };
    format!("{PASSES}{how}; the gate then says so. {ELSE}, even where the module ran before.")
}

fn code(source: &ModuleLocation) -> Map {
    let address = |sha256: &str, why: &str, about_uri: Option<String>| {
        let http_uri = match about_uri {
            Some(about) => Map::new().note(about),
            None => Map::new(),
        };
        let http_uri = http_uri
            .with("uri", source.url())
            .note("Required by Envoy, but not used: Istio's agent fetches the module.")
            .with("cluster", "_")
            .note("The agent's own default is 5 s.")
            .with("timeout", "30s");
        Map::of("remote", Map::of("http_uri", http_uri).note(why).with("sha256", sha256))
    };
    match source {
        ModuleLocation::Image { tag, digest, .. } => {
            let was = tag
                .as_ref()
                .map(|tag| format!("The tag {tag}, pinned: agents fetch a tag once and keep it."));
            address(digest, "The digest of the image's manifest, not of the module in it.", was)
        }
        ModuleLocation::Download { checksum, .. } => {
            address(checksum, "The checksum of the file.", None)
        }
        ModuleLocation::Mounted { path, .. } | ModuleLocation::File(path) => {
            Map::of("local", Map::of("filename", path.as_str()))
        }
    }
}

fn string(value: Node) -> Map {
    Map::of("@type", STRING_TYPE).with("value", value)
}

/// A filter whose configuration comes by extension discovery, where Istio's agent replaces `oci://`
/// by a file.
pub(super) fn discovered(name: &str) -> Map {
    let source = Map::of("ads", Map::new())
        .note("No limit: the listener waits for the module rather than run without it.")
        .with("initial_fetch_timeout", "0s")
        .with("resource_api_version", "V3");
    let types = List::of(WASM_TYPE)
        .note(
            "What the agent puts there when it cannot fetch the module: without it Envoy refuses \
            the whole update.",
        )
        .item(RBAC_TYPE);
    Map::of("name", name)
        .with("config_discovery", Map::of("config_source", source).with("type_urls", types))
}

/// The filter that writes the direct peer into filter state for the module.
pub(super) fn peer_info_filter(name: &str, peer_info: &PeerInfo) -> Map {
    let addresses = if peer_info.addresses { format!("{PEER} {LOCAL}") } else { PEER.into() };
    let line = |header: &String| {
        if header.is_empty() { "\n".to_owned() } else { format!("\n%REQ({header})%") }
    };
    let format = match &peer_info.headers {
        None => Map::of("text_format_source", Map::of("inline_string", addresses)),
        Some(headers) => {
            let lines: String = headers.iter().map(line).collect();
            Map::new()
                .note(
                    "The peer, and what else the module looks at: one value for it to read \
                    instead of all headers. No header can hold the end of a line.",
                )
                .with(
                    "text_format_source",
                    Map::of("inline_string", Node::Block(format!("{addresses}{lines}"))),
                )
                .note("A header that is not there is an empty line: each line has its place.")
                .with("omit_empty_values", true)
        }
    };
    let state = Map::new()
        .note(if peer_info.addresses { WHY_ADDRESSES } else { WHY_PEER })
        .with("object_key", peer_info.key.as_str())
        .with("factory_key", "envoy.string")
        .with("format_string", format);
    let config = Map::of("@type", FILTER_STATE_TYPE).with("on_request_headers", List::of(state));
    typed(name, config)
}

/// The same filter, where other filters may come before the module. They may write headers,
/// so the module reads the headers themselves.
pub(super) fn distant_peer_info_filter(peer_info: &PeerInfo) -> Map {
    let peer_info = PeerInfo { headers: None, ..peer_info.clone() };
    peer_info_filter(STATE_FILTER, &peer_info)
}

const PEER: &str = "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%";
const LOCAL: &str = "%DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_DIRECT_LOCAL_ADDRESS%";
const WHY_PEER: &str = "The direct peer of the connection, from Envoy itself. source.address would \
    be what x-forwarded-for claims.";
const WHY_ADDRESSES: &str = "From Envoy itself: the direct peer of the connection, the address \
    that the PROXY protocol header names as its destination, and the socket's own. Where the last \
    two are equal, there was no such header.";

/// `early_header_mutation_extensions`: saves the peer's `x-forwarded-proto`, and removes or
/// overwrites it.
pub(super) fn early_mutation(early: Early<'_>, policy: &Policy) -> List {
    let mut mutations = List::new();
    if let Some(header) = early.saved_in {
        let save =
            Map::of("header", Map::of("key", header).with("value", "%REQ(x-forwarded-proto)%"))
                .with("append_action", "OVERWRITE_IF_EXISTS_OR_ADD")
                .with("keep_empty_value", true);
        mutations = mutations
            .note(
                "It overwrites, and keeps an empty value: or a client that sends no \
                x-forwarded-proto, or an empty one, keeps a forged copy.",
            )
            .item(Map::of("append", save));
    }
    mutations = match early.leaves {
        Leaves::Own => mutations,
        Leaves::Connection => {
            mutations.note(WHY_CONNECTION).item(Map::of("remove", FORWARDED_PROTO))
        }
        Leaves::Http => {
            let http = Map::of("header", Map::of("key", FORWARDED_PROTO).with("value", "http"))
                .with("append_action", "OVERWRITE_IF_EXISTS_OR_ADD");
            mutations.note(WHY_HTTP).item(Map::of("append", http))
        }
    };
    if policy.file.forwarded_for.is_some() {
        mutations = mutations.note(WHY_EDGE);
        for header in EDGE_HEADERS {
            mutations = mutations.item(Map::of("remove", header));
        }
    }
    early_mutations(mutations)
}

/// Header mutations that Envoy makes before any filter runs.
pub(super) fn early_mutations(mutations: List) -> List {
    let config = Map::of("@type", EARLY_TYPE).with("mutations", mutations);
    List::of(typed("envoy.http.early_header_mutation.header_mutation", config))
}

/// The header mutations before Envoy writes its own `x-forwarded-proto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Early<'a> {
    /// The header in which the peer's own is saved.
    pub(super) saved_in: Option<&'a str>,
    /// The value that remains for the filters.
    pub(super) leaves: Leaves,
}

const WHY_CONNECTION: &str = "Where Envoy would keep the peer's own (sidecars, trusted hops), it \
    writes the connection's scheme now. That is what is left when the filter that restores the \
    header fails.";

/// Why the peer's own is overwritten at a sidecar.
const WHY_HTTP: &str = "A sidecar's Envoy keeps what it finds here, so http is what is left when \
    the module fails. If the header was removed, Envoy would write the connection's scheme, which \
    is https for every client of a mesh with mTLS.";

/// Headers that Envoy overwrites or removes with `use_remote_address` only.
pub(super) const EDGE_HEADERS: [&str; 6] = [
    "x-envoy-external-address",
    "x-envoy-decorator-operation",
    "x-envoy-downstream-service-cluster",
    "x-envoy-downstream-service-node",
    "x-envoy-original-host",
    "x-envoy-original-path",
];

const WHY_EDGE: &str = "Without use_remote_address Envoy keeps what clients write here.";

pub(super) const WHY_EARLY: &str = "What the peer sent is saved before Envoy writes its own \
    x-forwarded-proto, which it does before any filter runs.";
pub(super) const WHY_REMOVED: &str =
    "The saved header is for this Envoy only: no app and no Envoy behind it may believe it.";

pub(super) const JITTER: &str = "drain_timeout_jitter";

/// The percentage of the policy, as Envoy's connection managers have it.
pub(super) fn jitter(policy: &Policy) -> Option<Map> {
    let percent = policy.file.drain.drain_timeout_jitter;
    percent.map(|percent| Map::of("value", u64::from(percent)))
}

/// A part of Envoy by its name, with its configuration.
pub(super) fn typed(name: &str, config: Map) -> Map {
    Map::of("name", name).with("typed_config", config)
}

pub(super) fn router() -> Map {
    typed("envoy.filters.http.router", Map::of("@type", ROUTER_TYPE))
}

pub(super) fn address(host: &str, port: u16) -> Map {
    Map::of("socket_address", Map::of("address", host).with("port_value", port))
}
