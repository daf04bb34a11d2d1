//! The EnvoyProxy of a Gateway that Envoy Gateway runs: the gate in the bootstrap, and in the
//! Deployment the stop hook with what it needs.

use super::files::File;
use super::gate;
use super::hook::{WHY_TIMEOUT, by_program, pod_with_grace};
use super::image_volume::pull_secrets;
use super::objects::{block, gateway_patch};
use super::parts;
use super::program::sidecar;
use super::volume::{Program, Volume};
use laststream_base::time_span::TimeSpan;
use laststream_base::yaml::{List, Map, Node};
use laststream_policy::placement::EnvoyGateway;
use laststream_policy::{ModuleLocation, Policy};

/// `spec` of the EnvoyProxy; `None` where there is no gate, or no program for its hook.
pub(super) fn spec(policy: &Policy, source: Option<&ModuleLocation>) -> Option<Map> {
    let (port, program) = (policy.gate_port?, Program::of(policy)?);
    let template = Map::of("spec", pod(policy, source, port, &program));
    let patch = Map::of("type", "StrategicMerge")
        .with("value", Map::of("spec", Map::of("template", template)));
    let deployment = Map::of("envoyDeployment", Map::of("patch", patch));
    let provider = Map::of("type", "Kubernetes").with("kubernetes", deployment);
    let bootstrap = source.map(|source| {
        Map::new()
            .note("Added to what Envoy Gateway itself writes into the bootstrap.")
            .with("type", "Merge")
            .with("value", bootstrap(policy, source, port))
    });
    let shutdown = Map::new()
        .note(format!(
            "Envoy's own drain time. 1.5 times the gate's deadline of {}: in the last third Envoy \
                (after 1.40) resets WebSockets, other upgrades and CONNECT tunnels.",
            policy.sizing.deadline
        ))
        .with("drainTimeout", gateway_time(policy.sizing.drain_time()));
    let spec = Map::of("provider", provider).with_some("bootstrap", bootstrap);
    Some(spec.with("shutdown", shutdown))
}

/// A time for the Gateway API, whose times have five digits at most.
pub(super) fn gateway_time(time: TimeSpan) -> String {
    let seconds = time.whole_seconds();
    if seconds > 99_999 { format!("{}m", seconds.div_ceil(60)) } else { time.to_string() }
}

/// The gate's listener, which asks Envoy through the cluster of Envoy Gateway's own metrics.
fn bootstrap(policy: &Policy, source: &ModuleLocation, port: u16) -> Node {
    let role = parts::gate_role(policy);
    let filter = parts::filter(&role, policy, source);
    let listener = gate::listener(role.name, port, policy, filter)
        .note(
            "With `admin` in it, because Envoy Gateway's shutdown manager then does not count the \
                gate's own connections.",
        )
        .with("stat_prefix", "laststream_gate_admin");
    block(&Map::of("static_resources", Map::of("listeners", List::of(listener))))
}

/// Envoy's admin interface in the pods of Envoy Gateway.
const ADMIN: &str = "127.0.0.1:19000";

fn pod(policy: &Policy, source: Option<&ModuleLocation>, port: u16, program: &Program<'_>) -> Map {
    let module = source.and_then(Volume::of_module);
    let volumes: Vec<Volume> = module.into_iter().chain([program.volume()]).collect();
    let gate = source.is_none().then(|| sidecar(policy, program, port, ADMIN));
    let before = [program.init_container()].into_iter().chain(gate).collect::<List>();
    let lifecycle = Map::of("preStop", pre_stop(policy, port));
    let envoy = Map::of("name", "envoy")
        .with("lifecycle", lifecycle)
        .with("volumeMounts", volumes.iter().map(Volume::mount).collect::<List>());
    let manager = Map::of("name", "shutdown-manager").with("$patch", "delete");
    let containers = List::new()
        .note("The name of the proxy's container in what Envoy Gateway makes.")
        .item(envoy)
        .note(
            "The gate does its work. Its own count is of connections: an idle one would hold the \
                pod until `drainTimeout`, long after Envoy has ended.",
        )
        .item(manager);
    pod_with_grace(policy)
        .note(
            "In the namespace of the proxies: Envoy Gateway's own, or the Gateway's if Envoy \
                Gateway deploys into it (`GatewayNamespace`).",
        )
        .with_some("imagePullSecrets", pull_secrets(policy))
        .with("initContainers", before)
        .with("containers", containers)
        .with("volumes", volumes.iter().map(Volume::item).collect::<List>())
}

fn pre_stop(policy: &Policy, port: u16) -> Map {
    let list =
        List::new().note("Waits until the gate is open, which it is when it is drained, or over.");
    Map::new()
        .note(
            "Envoy Gateway's own hook is of another kind, and two kinds are refused: it must be \
            replaced. `httpGet: null` would not do, because the API server drops it.",
        )
        .with("$patch", "replace")
        .with("exec", by_program(list, port, WHY_TIMEOUT, policy))
}

/// The patch that makes a Gateway name the EnvoyProxy.
pub(super) fn reference(gateway: &EnvoyGateway, policy: &Policy) -> File {
    const ONE: &str = "A Gateway names one EnvoyProxy, in place of its class's: if there is one \
        already, put what is rendered into it, or give the rendered one a `mergeType` (Envoy \
        Gateway 1.9).";
    let parameters = Map::of("group", "gateway.envoyproxy.io")
        .with("kind", "EnvoyProxy")
        .with("name", policy.name.as_str());
    let infrastructure = Map::of("parametersRef", parameters);
    gateway_patch(policy, &gateway.gateway, &[ONE.to_owned()], infrastructure)
}
