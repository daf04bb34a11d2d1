//! The policy file as it is written. Its doc comments are the descriptions in the JSON schema; what the values must be like is said in
//! [`super::check`].

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::Value;

use crate::time_span::TimeSpan;

/// Where laststream goes, what it does there, and how long a drain may take. Only `module` is required.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    /// The name of the rendered resources, `laststream` if there is none; names inside Envoy are made of it.
    pub name: Option<String>,
    /// Their namespace: the proxies'. `istio-system` for an Istio gateway if there is none, with a warning: that is Istio's root namespace.
    pub namespace: Option<String>,
    /// Their labels.
    pub labels: BTreeMap<String, String>,
    /// Which proxies; an Istio gateway with the label `istio: ingressgateway` if there is none.
    pub placement: Option<Placement>,
    /// The module: `oci://HOST/REPOSITORY:TAG`, `https://…/plugin.wasm`, or a file that the proxy can read, such as `/etc/laststream.wasm`.
    pub module: Option<String>,
    /// What the module must be: `sha256:` and the image's manifest digest for `oci://`, the file's own checksum for `https://`.
    pub digest: Option<String>,
    /// The secret with the registry's credentials, in the proxies' namespace. Only WasmPlugin and Envoy Gateway know pull secrets.
    pub pull_secret: Option<String>,
    /// What happens to requests when the module cannot be fetched or fails.
    pub failure_policy: Option<FailurePolicy>,
    /// Which streams are counted: `count` of the module's configuration.
    #[schemars(schema_with = "module_count")]
    pub count: Option<Value>,
    /// How `x-forwarded-proto` is restored: `forwarded_proto` of the module's configuration.
    #[schemars(schema_with = "module_forwarded_proto")]
    pub forwarded_proto: Option<Value>,
    /// Who restores `x-forwarded-proto`; `auto` if nothing is said. Streams are counted by the module in any case.
    pub engine: Option<Engine>,
    /// The gate's listener.
    pub gate: Gate,
    /// How a drain goes, and how long it may take. What is left out is computed from what is there.
    pub drain: Drain,
    /// Retries at the caller's side, as a second line; for `render virtualservice`.
    pub retries: Option<Retries>,
    /// A Job whose command waits for its sidecar and ends it; for `render job`.
    pub job: Option<Job>,
}

/// Which proxies.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Placement {
    /// An Istio gateway.
    Gateway(Gateways),
    /// Istio sidecars.
    Sidecar(Sidecars),
    /// A waypoint of Istio's ambient mode.
    Waypoint(Waypoint),
    /// A Gateway that Envoy Gateway runs.
    EnvoyGateway(EnvoyGateway),
    /// An Envoy without a mesh.
    Envoy(PlainEnvoy),
}

/// An Istio gateway.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Gateways {
    /// The name of a Gateway of the Gateway API, in the policy's namespace. Its proxies get the resources by `targetRefs` (Istio 1.28 and
    /// newer), and no other proxies do.
    pub name: Option<String>,
    /// Labels of its pods; `istio: ingressgateway` if there are none and no `name`. In Istio's root namespace they select gateways of all
    /// namespaces.
    pub selector: BTreeMap<String, String>,
}

/// Istio sidecars.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Sidecars {
    /// Labels of the pods; without any, all sidecars of the namespace (of the mesh, in Istio's root namespace).
    pub selector: BTreeMap<String, String>,
    /// Which streams are counted; both directions if nothing is said.
    pub directions: Vec<Direction>,
    /// The sidecars are init containers with `restartPolicy: Always`.
    pub native: bool,
    /// The name of the Deployment that `render lifecycle` and `render proxy-config` patch; the policy's name if there is none.
    pub workload: Option<String>,
}

/// The direction of a stream, seen from the app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Requests to the app.
    Inbound,
    /// Requests from the app.
    Outbound,
}

/// A waypoint of Istio's ambient mode.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Waypoint {
    /// The name of its Gateway.
    pub gateway: String,
}

/// A Gateway that Envoy Gateway runs.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvoyGateway {
    /// The name of the Gateway.
    pub gateway: String,
    /// Names of its plain HTTP listeners, for what only a patch can do; `http` if there are none.
    #[serde(default)]
    pub listeners: Vec<String>,
}

/// An Envoy without a mesh.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PlainEnvoy {
    /// Where it listens; `127.0.0.1:10000` if nothing is said.
    pub listen: Option<String>,
    /// Where the app listens; `127.0.0.1:8080` if nothing is said.
    pub app: Option<String>,
    /// Where its admin interface listens; `127.0.0.1:9901` if nothing is said.
    pub admin: Option<String>,
}

/// What happens to requests when the module cannot be fetched or fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailurePolicy {
    /// They pass, uncounted. The default in Istio: a registry that is out of order takes no gateway down.
    Open,
    /// They are refused.
    Closed,
    /// A module that fails is loaded again; one that cannot be fetched refuses requests. The default for a local file.
    Reload,
}

/// Who restores `x-forwarded-proto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// Envoy's own matchers where they come to the same and are sure to be there, else the module.
    Auto,
    /// Envoy's own matchers: cheaper, without counters of what was decided. A policy that they cannot express is refused.
    Native,
    /// The module.
    Wasm,
}

/// The gate's listener.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Gate {
    /// `false`: there is none, streams are only counted.
    pub enabled: Option<bool>,
    /// Its port on the loopback interface; 15091 if nothing is said.
    pub port: Option<u16>,
    /// Where the proxy has the gate's secret from. Without one, any client in the pod may begin a drain, force the gate and end Envoy.
    pub secret: Option<GateSecret>,
    /// Names under which the gate may be asked, besides IP addresses and `localhost`.
    pub hosts: Vec<String>,
}

/// Where the proxy has the gate's secret from. The secret itself never stands in a policy or in a rendered file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum GateSecret {
    /// An environment variable of the proxy, such as `LASTSTREAM_SECRET`: 16 characters or more, letters and digits for a hook.
    Environment(String),
    /// A file in the proxy with an SDS resource: a `generic_secret` named `laststream-gate`, which may name the file with the secret.
    Sds(String),
}

/// How a drain goes, and how long it may take.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Drain {
    /// The longest request that must not be cut.
    pub longest_request: Option<TimeSpan>,
    /// The pod's `terminationGracePeriodSeconds`.
    pub grace_period: Option<TimeSpan>,
    /// When the gate lets go whatever happens, from the beginning of the drain.
    pub deadline: Option<TimeSpan>,
    /// How long nothing may be in flight before it is believed; 1s if nothing is said.
    pub quiet: Option<TimeSpan>,
    /// How long to wait before the drain begins, while the endpoint's removal spreads; not at all if nothing is said.
    pub delay: Option<TimeSpan>,
    /// What Istio's agent takes after SIGTERM when the deadline was reached: its `terminationDrainDuration`, 5s if nothing is said.
    pub agent: Option<TimeSpan>,
    /// How traffic is made to leave; `drain_listeners` if nothing is said.
    pub begin: Option<Begin>,
    /// The last call, at zero; `drain_agent` in Istio, `nothing` elsewhere, if nothing is said.
    pub finish: Option<Finish>,
    /// What long-lived streams do to the drain; they hold it if nothing is said.
    pub long_lived: Option<LongLived>,
    /// Streams that are older than this when the drain begins are long-lived, too.
    pub long_lived_after: Option<TimeSpan>,
    /// Also wait until the app has gone, so that the proxy outlives it.
    pub wait_for_app: Option<App>,
    /// Keeps Istio's own EXIT_ON_ZERO_ACTIVE_CONNECTIONS beside the gate; for `render proxy-config`.
    pub exit_on_zero: bool,
}

/// How traffic is made to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Begin {
    /// `/drain_listeners?graceful&skip_exit`: responses tell clients to close. It cannot be taken back.
    DrainListeners,
    /// `/healthcheck/fail`: the same for both directions; it can be taken back.
    FailHealthChecks,
    /// Nothing; somebody else sees to it.
    Nothing,
}

/// The last call, made at zero and never at the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// None.
    Nothing,
    /// `POST /drain` to Istio's agent: at SIGTERM it then ends at once.
    DrainAgent,
    /// `POST /quitquitquit` to Envoy.
    Quit,
}

/// What long-lived streams do to the drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LongLived {
    /// They hold it like all others.
    Wait,
    /// They do not hold it, and are reported apart.
    Exempt,
}

/// The app beside the proxy.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct App {
    /// Envoy's cluster of it, without TLS, such as `inbound|8080||`.
    pub cluster: String,
    /// What is asked of it; `/` if nothing is said. It has gone when its port refuses connections.
    pub path: Option<String>,
}

/// Retries at the caller's side.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retries {
    /// The service that is called.
    pub host: String,
    /// How often it is tried again; 2 if nothing is said.
    pub attempts: Option<u16>,
    /// How long each try may take; the longest request if nothing is said.
    pub per_try_timeout: Option<TimeSpan>,
    /// What is tried again: `connect-failure,refused-stream` if nothing is said, which the app has never seen.
    pub retry_on: Option<String>,
}

/// A Job beside a sidecar.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Its name; the policy's if there is none.
    pub name: Option<String>,
    /// It is a CronJob.
    #[serde(default)]
    pub cron: bool,
    /// The container with the work.
    pub container: String,
    /// That container's command and arguments, all of them: a patch cannot know them.
    pub command: Vec<String>,
    /// An image with laststream's static program in it.
    pub program_image: String,
    /// Where the program is in that image; `/laststream` if nothing is said.
    pub program: Option<String>,
}

fn module_count(_: &mut SchemaGenerator) -> Schema {
    module_field("count")
}

fn module_forwarded_proto(_: &mut SchemaGenerator) -> Schema {
    module_field("forwarded_proto")
}

/// A field of the module's own schema.
fn module_field(name: &str) -> Schema {
    let mut schema = laststream_filter::config::schema::schema();
    let field = schema.pointer_mut(&format!("/properties/{name}")).map(Value::take);
    field.and_then(|field| Schema::try_from(field).ok()).unwrap_or_default()
}
