//! Reads a policy with any placement for the Envoy of `run` on this machine.

use std::net::Ipv4Addr;

use laststream_base::env_vars::{LASTSTREAM_SECRET, Lookup};
use laststream_filter::config::wire::SHORTEST_SECRET;
use laststream_filter::forwarded::{Peers, Range};
use laststream_gate::{self as gate, Secret};
use laststream_policy::file::{
    Begin, Engine, Finish, GateSecret, Starts, WebsocketRoute, Websockets,
};
use laststream_policy::placement::Placement;
use laststream_policy::{self as policy, Overrides, Policy, PolicyError, PolicyProblem};

/// A module that is never read, because the command line names the one that runs here. A file gives
/// the policy the failure policy of a local module.
const SOME_FILE: &str = "laststream.wasm";
const SOME_NAMESPACE: &str = "default";

/// The gate's secret from the environment, as the other commands read it. Envoy gets it, too.
pub fn secret(lookup: Lookup<'_>) -> Result<Option<Secret>, String> {
    match gate::secret(None, lookup)? {
        Some(secret) if secret.reveal().len() < SHORTEST_SECRET => Err(format!(
            "{LASTSTREAM_SECRET} is too short for a secret: {SHORTEST_SECRET} characters or more"
        )),
        secret => Ok(secret),
    }
}

/// Reads a policy file. An empty one is refused, because an editor may truncate a file before it
/// writes it: that must not look like a policy without rules.
pub fn read_file(text: &[u8], has_secret: bool) -> Result<Policy, PolicyError> {
    if policy::is_empty(text) {
        let message = "is empty: write `{}` for a policy without rules";
        return Err(PolicyError(vec![PolicyProblem::new("", message)]));
    }
    read(text, has_secret)
}

/// Reads a policy as `render` does, and adapts it to one Envoy without a mesh: times and rules
/// stay; the call to Istio's agent and the wait for the app are removed. There is always a gate,
/// which ends the run. Its secret comes from the environment, as in `laststream status` and other
/// commands.
pub fn read(text: &[u8], has_secret: bool) -> Result<Policy, PolicyError> {
    let overrides = Overrides {
        module: Some(SOME_FILE.into()),
        namespace: Some(SOME_NAMESPACE.into()),
        ..Overrides::default()
    };
    let mut policy = Policy::read(text, &overrides)?;
    policy.placement = Placement::plain();
    if policy.file.gate.secret.is_some() && !has_secret {
        let message = format!(
            "is the proxy's in the mesh; here set {LASTSTREAM_SECRET}, to 16 characters or more"
        );
        return Err(PolicyError(vec![PolicyProblem::new("gate.secret", message)]));
    }
    policy.file.gate.secret =
        has_secret.then(|| GateSecret::Environment(LASTSTREAM_SECRET.to_owned()));
    if policy.starts == Starts::Agent {
        policy.starts = Starts::Hook;
        policy.begin = Begin::DrainListeners;
        policy.finish = Finish::Nothing;
    }
    if policy.finish == Finish::DrainAgent {
        policy.finish = Finish::Nothing;
    }
    if matches!(policy.engine, Engine::Native | Engine::Composite) {
        policy.warnings.push(
            "engine: here the module does it, so that policies can change without a new listener"
                .into(),
        );
    }
    if policy.file.drain.wait_for_app.take().is_some() {
        policy.warnings.push(
            "drain.wait_for_app: the app here does not end with Envoy, so it is not waited for"
                .into(),
        );
    }
    if let Some(websockets) = &mut policy.file.websockets {
        policy.warnings.extend(all_on_one_route(websockets));
    }
    let proto = policy.forwarded_proto.as_ref();
    if proto.is_some_and(|proto| !trusts_this_machine(&proto.peers)) {
        policy.warnings.push(LOOPBACK.into());
    }
    Ok(policy)
}

const LOOPBACK: &str = "forwarded_proto.trust.peers: requests from this machine come from \
    127.0.0.1, which is not in it: their x-forwarded-proto is not believed. To try the headers, \
    add `127.0.0.1/32` in a copy of the policy";

fn trusts_this_machine(peers: &[String]) -> bool {
    let ranges = peers.iter().filter_map(|peer| peer.parse::<Range>().ok());
    ranges.collect::<Peers>().contains(Ipv4Addr::LOCALHOST.into())
}

/// Names of Istio's routes become the one route that is here.
fn all_on_one_route(websockets: &mut Websockets) -> Option<String> {
    let is_named = websockets.routes.iter().any(|route| route.name.is_some());
    is_named.then(|| {
        websockets.routes = vec![WebsocketRoute { name: None, prefix: Some("/".into()) }];
        "websockets.routes: Istio's routes are not here, so the frame filter is on for every \
            request"
            .into()
    })
}

#[cfg(test)]
mod tests {
    use laststream_filter::config;

    use super::{read, read_file};
    use laststream_policy::module_json;

    #[test]
    fn peers_without_this_machine_are_a_warning() {
        for (peers, warnings) in [("10.0.0.0/16", 1), ("127.0.0.0/8", 0)] {
            let text = format!("forwarded_proto: {{presets: [gcp], trust: {{peers: [{peers}]}}}}");
            let policy = read(text.as_bytes(), false).expect(peers);
            let about = policy.warnings.iter().filter(|warning| warning.contains("127.0.0.1/32"));
            assert_eq!(about.count(), warnings, "{peers}");
        }
    }

    #[test]
    fn every_policy_runs_without_a_mesh() {
        for text in [
            "",
            "module: oci://h/r:floating\n",
            "placement: {sidecar: {native: true}}\nnamespace: shop\ndrain: {agent: 3s, \
                wait_for_app: {cluster: app}}\n",
            "drain: {starts: agent, longest_request: 60s}\n",
            "placement: {waypoint: {gateway: w}}\n",
            "placement: {envoy_gateway: {gateway: w}}\n",
            "placement: {envoy: {app: 127.0.0.1:1}}\ndrain: {finish: quit}\n",
            "gate: {enabled: false}\n",
        ] {
            let policy = read(text.as_bytes(), false).expect(text);
            let gate = module_json::gate(&policy);
            config::parse(gate.to_string().as_bytes()).expect(text);
            assert_eq!(gate["gate"]["admin"]["cluster"], "admin", "{text}");
            assert_eq!(gate["gate"]["scopes"], serde_json::json!(["gateway"]), "{text}");
            assert!(
                gate["gate"].get("app").is_none() && gate["gate"]["finish"] != "drain_agent",
                "{gate}"
            );
        }
        assert!(read(b"count: {exclude: {paths: [{exact: no}]}}", false).is_err());
    }

    #[test]
    fn an_empty_file_is_refused_and_an_empty_policy_is_not() {
        for text in ["", " \n\t\n", "# later\n---\n"] {
            let refused = read_file(text.as_bytes(), false).expect_err(text).to_string();
            assert!(refused.contains("write `{}`"), "{refused}");
        }
        read_file(b"{}", false).expect("a policy without rules");
    }

    #[test]
    fn the_secret_comes_from_the_environment() {
        const POLICY: &[u8] = b"gate: {secret: {sds: /etc/laststream/sds.yaml}}";
        let refused = read(POLICY, false).expect_err("no secret").to_string();
        assert!(refused.contains("LASTSTREAM_SECRET"), "{refused}");
        for text in [POLICY, b""] {
            let policy = read(text, true).expect("a policy");
            assert_eq!(module_json::gate(&policy)["gate"]["secret_key"], "laststream.gate_secret");
        }
    }
}
