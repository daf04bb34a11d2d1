//! The Envoy of `laststream run`: settings that may change while it runs come from files that it
//! watches, and every port may be a free one.
//!
//! Listener and filters are those of [`super::envoy`], so that a policy behaves here as it does
//! when it is rendered. But the module always restores the scheme, so that most changes of the
//! policy need no other listener.

use std::net::SocketAddr;
use std::path::Path;

use super::files::text;
use super::parts::{self, Role, WASM_TYPE};
use super::scheme::Scheme;
use super::{envoy, latch};
use laststream_base::time_span::TimeSpan;
use laststream_base::yaml::{List, Map};
use laststream_policy::placement::{ADMIN_CLUSTER, AppProtocol};
use laststream_policy::{ModuleLocation, Policy};

const FILTER_TYPE: &str = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig";
const LISTENER_TYPE: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
const ENDPOINTS_TYPE: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";

/// A file that Envoy watches, alone in its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    Listeners,
    /// The counting filter: its configuration and its code.
    Stream,
    /// The gate's filter: its configuration and its code.
    Gate,
    /// The address of Envoy's own admin interface, which only a running Envoy knows.
    Admin,
}

impl Watched {
    pub const ALL: [Self; 4] = [Self::Listeners, Self::Stream, Self::Gate, Self::Admin];

    pub fn name(self) -> &'static str {
        match self {
            Self::Listeners => "listeners",
            Self::Stream => "filter",
            Self::Gate => "gate",
            Self::Admin => "admin",
        }
    }

    /// The prefix of its statistics.
    pub fn stats(self) -> &'static str {
        match self {
            Self::Listeners => "listener_manager.lds",
            Self::Stream => "extension_config_discovery.http_filter.laststream",
            Self::Gate => "extension_config_discovery.http_filter.laststream-gate",
            Self::Admin => "cluster.admin",
        }
    }

    fn source(self, folder: &Path) -> Map {
        let place = folder.join(self.name());
        let path = Map::of("path", place.join(RESOURCES).display().to_string())
            .with("watched_directory", Map::of("path", place.display().to_string()));
        Map::of("path_config_source", path).with("resource_api_version", "V3")
    }
}

pub const RESOURCES: &str = "resources.yaml";

/// The requested addresses of this Envoy; a port may be 0.
#[derive(Debug, Clone, Copy)]
pub struct Ports {
    pub listen: SocketAddr,
    pub gate: u16,
    pub admin: u16,
}

/// The app that requests go to.
#[derive(Debug, Clone, Copy)]
pub struct App {
    pub at: SocketAddr,
    pub protocol: AppProtocol,
}

/// Longer than the deadlines of most policies.
pub const LONG: TimeSpan = TimeSpan::seconds(600);

/// The bootstrap, which does not change while Envoy runs.
pub fn bootstrap(policy: &Policy, ports: Ports, app: App, folder: &Path) -> String {
    // The policy may change while this listener stays.
    let mut patient = policy.clone();
    patient.sizing.deadline = patient.sizing.deadline.max(LONG);
    let gate = super::gate::listener(
        "gate",
        ports.gate,
        &patient,
        discovered("laststream-gate", Watched::Gate, folder),
    );
    let eds =
        Map::of("service_name", ADMIN_CLUSTER).with("eds_config", Watched::Admin.source(folder));
    let admin = Map::of("name", ADMIN_CLUSTER)
        .with("connect_timeout", "1s")
        .with("type", "EDS")
        .with("eds_cluster_config", eds);
    let document = Map::new()
        .note("Envoy wants a name where configuration comes from files.")
        .with("node", Map::of("id", "laststream-run").with("cluster", "laststream-run"))
        .with("admin", Map::of("address", parts::address("127.0.0.1", ports.admin)))
        .with("layered_runtime", latch::runtime())
        .with("dynamic_resources", Map::of("lds_config", Watched::Listeners.source(folder)))
        .with(
            "static_resources",
            Map::of("listeners", List::of(alone(gate)))
                .with("clusters", List::of(admin).item(envoy::app_cluster(app.at, app.protocol))),
        );
    text(
        &["The part that does not change while Envoy runs; the rest is in the folders beside it."
            .to_owned()],
        &[document],
    )
}

/// The listener in front of the app. The module of the frame filter is the file `frames`.
pub fn listeners(policy: &Policy, ports: Ports, folder: &Path, frames: &Path) -> Map {
    let filter = discovered("laststream", Watched::Stream, folder);
    let frames = ModuleLocation::File(frames.display().to_string());
    let frames = policy.file.websockets.as_ref().map(|_| envoy::frames(policy, &frames));
    let filter = (!policy.by_envoy).then_some(filter);
    let modules: Vec<Map> = filter.into_iter().chain(frames).collect();
    alone(envoy::main(policy, &Scheme::module(policy), &modules, ports.listen))
        .with("@type", LISTENER_TYPE)
}

/// The resource of the counting filter.
pub fn stream(policy: &Policy, module: &Path) -> Map {
    filter(&envoy::stream_role(policy, &Scheme::module(policy)), policy, module)
}

/// The resource of the gate's filter.
pub fn gate(policy: &Policy, module: &Path) -> Map {
    filter(&parts::gate_role(policy), policy, module)
}

/// The endpoints of the admin interface; none until its address is known.
pub fn admin(at: Option<SocketAddr>) -> Map {
    let nowhere = || Map::of("cluster_name", ADMIN_CLUSTER);
    at.map_or_else(nowhere, |at| envoy::endpoints(ADMIN_CLUSTER, at)).with("@type", ENDPOINTS_TYPE)
}

/// A version of a watched file.
pub fn resources(version: u64, resource: &Map) -> String {
    let document =
        Map::of("version_info", version.to_string()).with("resources", List::of(resource.clone()));
    text(&[], &[document])
}

fn filter(role: &Role<'_>, policy: &Policy, module: &Path) -> Map {
    let config = parts::wasm(role, policy, &ModuleLocation::File(module.display().to_string()));
    Map::of("@type", FILTER_TYPE).with("name", role.name).with("typed_config", config)
}

fn discovered(name: &str, file: Watched, folder: &Path) -> Map {
    let discovery =
        Map::of("config_source", file.source(folder)).with("type_urls", List::of(WASM_TYPE));
    Map::of("name", name).with("config_discovery", discovery)
}

/// A listener with a separate port: otherwise two Envoys could share the port, and each would get
/// half of the connections.
fn alone(listener: Map) -> Map {
    listener.with("enable_reuse_port", false)
}
