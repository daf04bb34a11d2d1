//! The gate's listener, and the filters in front of the gate, which write the connection's address
//! and the secret into filter state.

use laststream_filter::gate::access::{ADDRESS_KEY, SECRET_KEY};
use laststream_filter::gate::grace::GRACE_KEY;

use super::parts::{FILTER_STATE_TYPE, HCM, HCM_TYPE, address, early_mutations, router, typed};
use super::tcp;
use laststream_base::time_span::TimeSpan;
use laststream_base::yaml::{List, Map};
use laststream_policy::file::GateSecret;
use laststream_policy::{KUBELET, Policy};

/// The time beyond the gate's deadline after which Envoy ends a request that is held; the gate
/// itself answers within 5 s.
const AFTER_THE_DEADLINE: TimeSpan = TimeSpan::seconds(10);

/// The gate's listener around its filter.
pub(super) fn listener(name: &str, port: u16, policy: &Policy, filter: Map) -> Map {
    let unavailable = Map::of("status", 503_u16)
        .with("body", Map::of("inline_string", "the gate is not there\n"));
    let route = Map::of("match", Map::of("prefix", "/")).with("direct_response", unavailable);
    let host = Map::of("name", "gate")
        .with("domains", List::of("*"))
        .note(
            "Reached only if the gate does not work. No hook may take this answer for an open \
            gate.",
        )
        .with("routes", List::of(route));
    let manager = Map::of("@type", HCM_TYPE)
        .note("Requests to the gate do not hold the drain: the gate leaves this name out.")
        .with("stat_prefix", "laststream")
        .note(
            "A living gate answers every hook before. One that is held by a VM that has died \
            gets Envoy's 504 then, and must ask again.",
        )
        .with(
            "stream_idle_timeout",
            (policy.sizing.deadline + AFTER_THE_DEADLINE).rounded_up().to_string(),
        )
        .with_some("early_header_mutation_extensions", early_mutation(policy))
        .with("http_filters", filters(policy).chain([filter, router()]).collect::<List>())
        .with("route_config", Map::of("name", name).with("virtual_hosts", List::of(host)));
    let first = (!policy.tcp.is_empty()).then(tcp::of_gate);
    let chain =
        Map::of("filters", first.into_iter().chain([typed(HCM, manager)]).collect::<List>());
    Map::of("name", name)
        .note("The loopback interface: the gate must not be reachable from outside.")
        .with("address", address("127.0.0.1", port))
        .note("So that draining inbound listeners spares it.")
        .with("traffic_direction", "OUTBOUND")
        .note("An overloaded proxy is stopped, too: its hook must be held, not refused.")
        .with("bypass_overload_manager", true)
        .with("filter_chains", List::of(chain))
}

const INJECTOR_TYPE: &str =
    "type.googleapis.com/envoy.extensions.filters.http.credential_injector.v3.CredentialInjector";
const CREDENTIAL_TYPE: &str =
    "type.googleapis.com/envoy.extensions.http.injected_credentials.generic.v3.Generic";

/// The header into which Envoy itself writes the secret of SDS. The early mutation removes a
/// client's own.
const EXPECTED: &str = "x-laststream-expected-secret";
const RESOURCE: &str = "laststream-gate";

/// The filters in front of the module.
fn filters(policy: &Policy) -> impl Iterator<Item = Map> {
    let injector = match &policy.file.gate.secret {
        Some(GateSecret::Sds(path)) => Some(injector(path)),
        _ => None,
    };
    injector.into_iter().chain([gate_state_filter(policy)])
}

/// Removes a client's own header of the name that is for the expected secret.
fn early_mutation(policy: &Policy) -> Option<List> {
    matches!(policy.file.gate.secret, Some(GateSecret::Sds(_))).then(|| {
        let removal = Map::of("remove", EXPECTED);
        early_mutations(
            List::new()
                .note(
                    "Only Envoy writes this header: a client's own would be the secret \
                that is expected.",
                )
                .item(removal),
        )
    })
}

/// The filter that writes the connection's address and the secret into filter state for the gate.
fn gate_state_filter(policy: &Policy) -> Map {
    let address = List::new()
        .note(
            "Proves that a client is on the loopback interface. destination.address would be \
            what a PROXY protocol header claims.",
        )
        .item(state(ADDRESS_KEY, "%DOWNSTREAM_DIRECT_LOCAL_ADDRESS%".into()));
    let states = match &policy.file.gate.secret {
        None => address,
        Some(GateSecret::Environment(name)) => address
            .note(
                "The secret, from the proxy's environment. While the variable is not set, the \
                gate refuses what needs the secret.",
            )
            .item(state(SECRET_KEY, format!("%ENVIRONMENT({name})%"))),
        Some(GateSecret::Sds(_)) => address
            .note(
                "The secret, from the filter in front. While SDS has none, the gate refuses what \
                needs the secret.",
            )
            .item(state(SECRET_KEY, format!("%REQ({EXPECTED})%"))),
    };
    let states = match &policy.file.drain.grace_from {
        None => states,
        Some(name) => states
            .note(
                "The pod's own grace period, and the seconds that are needed after the hook: the \
                deadline is never later than these allow.",
            )
            .item(state(GRACE_KEY, format!("%ENVIRONMENT({name})% {}", after_the_hook(policy)))),
    };
    let config = Map::of("@type", FILTER_STATE_TYPE).with("on_request_headers", states);
    typed("envoy.filters.http.set_filter_state", config)
}

/// The seconds that Istio's agent and kubelet need after the hook.
fn after_the_hook(policy: &Policy) -> u64 {
    (policy.sizing.agent + KUBELET).rounded_up().whole_seconds()
}

fn state(key: &str, format: String) -> Map {
    let format = Map::of("text_format_source", Map::of("inline_string", format))
        .with("omit_empty_values", true);
    Map::of("object_key", key).with("factory_key", "envoy.string").with("format_string", format)
}

fn injector(path: &str) -> Map {
    let folder = path
        .rsplit_once('/')
        .map(|(folder, _)| folder)
        .filter(|folder| !folder.is_empty())
        .unwrap_or("/");
    let file = Map::of("path", path)
        .note("Kubernetes replaces the files of a Secret by moving a link in their folder.")
        .with("watched_directory", Map::of("path", folder));
    let source = Map::of("path_config_source", file).with("resource_api_version", "V3");
    let credential = Map::of("@type", CREDENTIAL_TYPE)
        .with("credential", Map::of("name", RESOURCE).with("sds_config", source))
        .with("header", EXPECTED);
    let config = Map::of("@type", INJECTOR_TYPE)
        .with("overwrite", true)
        .note("Without a secret the gate itself refuses, and says why.")
        .with("allow_request_without_credential", true)
        .with("credential", typed("envoy.http.injected_credentials.generic", credential));
    typed("envoy.filters.http.credential_injector", config)
}
