//! The policy file as it is written. Its doc comments are the descriptions in the JSON schema;
//! [`super::check`] checks the values.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Value, json};

pub use drain::{App, Begin, Behind, Drain, Finish, LongLived, Starts};
pub use end::{End, EndKind, RetryAfter};
pub use gate::{GateSecret, GateSection, Notify};
pub use streams::{Show, Streams};
pub use websockets::{WebsocketRoute, Websockets};

use crate::placement::Placement;
use laststream_base::time_span::TimeSpan;

pub(crate) mod drain;
mod end;
pub(crate) mod gate;
mod streams;
mod websockets;

/// The policy: where the module goes, what it does there, and how long a drain may take. Only
/// `module` is required.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    /// The name of the rendered resources, by default `laststream`. Names inside Envoy are derived
    /// from it.
    pub name: Option<String>,
    /// The namespace of the proxies and of the rendered resources. Required, except for a class of
    /// Gateways or waypoints and for an Envoy without a mesh. An Istio gateway's is its own, not
    /// Istio's root namespace.
    pub namespace: Option<String>,
    /// Labels of the rendered resources.
    pub labels: BTreeMap<String, String>,
    /// The mesh's version of Istio, such as `"1.30"`. From 1.30 on `render wasmplugin` writes a
    /// TrafficExtension. Without this field it writes a WasmPlugin, which every version reads.
    pub istio: Option<String>,
    /// The kind of traffic, whose defaults replace the usual ones. A field that is written wins.
    pub profile: Option<Profile>,
    /// The kind of proxy. The default is an Istio gateway with the label `istio: ingressgateway`.
    pub placement: Option<Placement>,
    /// Required, except with `delivery: program`. The module: `oci://HOST/REPOSITORY:TAG`,
    /// `https://…/plugin.wasm`, or a file that the proxy can read, such as `/etc/laststream.wasm`.
    pub module: Option<String>,
    /// `sha256:` and the digest of the image's manifest for `oci://`, or the checksum of the file
    /// for `https://`. Without it, `render` asks the registry.
    pub digest: Option<String>,
    /// How the module's image gets to the proxy, by default `proxy`.
    pub delivery: Option<Delivery>,
    /// The secret with the registry's credentials, in the proxies' namespace. WasmPlugin, Envoy
    /// Gateway and image volumes have pull secrets.
    pub pull_secret: Option<String>,
    /// An image with the program for hooks and Jobs, `laststream-hook`, as `/laststream`: for the
    /// stop hook of proxies whose image has neither a shell nor Istio's agent.
    pub program_image: Option<String>,
    /// What happens to requests when the module cannot be fetched or fails.
    pub failure_policy: Option<FailurePolicy>,
    /// Which streams are counted: `count` of the module's configuration. With `by: envoy` it is
    /// Envoy that counts, and no filter is in the path of requests; by default both count. With
    /// `tcp: [5432]` the TCP connections of the listener on this port hold the drain like streams.
    #[schemars(schema_with = "module_count")]
    pub count: Option<Value>,
    /// How `x-forwarded-proto` is restored: `forwarded_proto` of the module's configuration.
    #[schemars(schema_with = "module_forwarded_proto")]
    pub forwarded_proto: Option<Value>,
    /// The part of Envoy that restores `x-forwarded-proto`, by default `auto`.
    pub engine: Option<Engine>,
    /// The header from which Envoy takes the client's address, if one of
    /// `forwarded_proto.trust.peers` sends it. Without this field the rendered resources do not
    /// change how Envoy finds that address.
    pub forwarded_for: Option<ForwardedFor>,
    /// The gate's listener.
    pub gate: GateSection,
    /// How a drain goes, and how long it may take. Times that are not given are computed from the
    /// others.
    pub drain: Drain,
    /// Streams that the gate ends before the deadline, or that do not hold the drain. Without this
    /// section the gate ends none.
    pub end: Option<End>,
    /// Where WebSockets end with close code 1001, because the frame filter is on their routes.
    pub websockets: Option<Websockets>,
    /// What the listing of streams shows of each request.
    pub streams: Streams,
    /// How long a stream may be silent before Envoy ends it, in place of a total time-out; `0s` for
    /// no limit. For Envoy Gateway, by default 5m of silence and 15s in total, and for an Envoy
    /// without a mesh, by default 5m of silence. Istio's proxies have neither limit.
    pub stream_idle: Option<TimeSpan>,
    /// Retries at the caller's side, as a second line; for `render virtualservice`.
    pub retries: Option<Retries>,
    /// A Job whose command waits for its sidecar and ends it; for `render job`.
    pub job: Option<Job>,
}

impl File {
    /// Whether kubelet mounts the module.
    pub(crate) fn is_mounted(&self) -> bool {
        self.delivery == Some(Delivery::ImageVolume)
    }

    /// Whether the gate is a program, and there is no module.
    pub(crate) fn is_program(&self) -> bool {
        self.delivery == Some(Delivery::Program)
    }

    /// Whether the module is the path of a file in the proxy.
    pub(crate) fn is_local(&self) -> bool {
        self.module.as_deref().is_some_and(|module| !module.contains("://"))
    }
}

/// The kind of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Streams that last for minutes: event streams, answers of language models, WebSockets.
    Streaming,
}

/// How the module's image gets to the proxy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// The proxy, its agent or its control plane fetches the image.
    #[default]
    Proxy,
    /// Kubelet pulls the image and mounts it; the proxy then asks no registry. Needs
    /// Kubernetes 1.35, or 1.33 with the feature gate `ImageVolume`, and containerd 2.1.
    ImageVolume,
    /// There is no module: the gate is laststream's program beside Envoy, and Envoy's count is the
    /// only one. For Envoy Gateway, waypoints and Envoys without a mesh.
    Program,
}

/// What happens to requests when the module cannot be fetched or fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailurePolicy {
    /// Requests pass, uncounted. The default in Istio, so that an unreachable registry does not
    /// stop the gateway.
    Open,
    /// Requests are refused.
    Closed,
    /// A module that fails is loaded again; one that cannot be fetched refuses requests. The
    /// default for a local file.
    Reload,
}

/// The part of Envoy that restores `x-forwarded-proto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// Envoy's native matchers where they are equivalent and known to exist; otherwise the module.
    /// In Istio the version of each proxy decides.
    Auto,
    /// Envoy's native matchers around filters: cheaper, without counters of the decisions. A policy
    /// that they cannot express is rejected. Istio's list of extensions does not name
    /// `match_delegate`, which they need.
    Native,
    /// Envoy's native matchers in its composite filter: proxies of Istio 1.31 and newer, and Envoy
    /// 1.39 and newer. Older proxies of Istio get the module. A policy that the matchers cannot
    /// express is rejected.
    Composite,
    /// The module.
    Wasm,
}

/// The header from which Envoy takes the client's address. For an Envoy without a mesh; Envoy
/// Gateway takes `xff` only.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum ForwardedFor {
    /// `x-forwarded-for`: the last address in it that is not a trusted peer.
    Xff,
    /// A header of one address that a CDN overwrites, such as `cf-connecting-ip`.
    Header(String),
}

/// Envoy and the app pay for each retry of each request.
pub(super) const MOST_ATTEMPTS: u16 = 10;

/// Retries at the caller's side.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retries {
    /// The service that is called.
    pub host: String,
    /// The number of retries, by default 2.
    #[schemars(range(min = 1, max = MOST_ATTEMPTS))]
    pub attempts: Option<u16>,
    /// How long each try may take until its response begins, by default as long as the longest
    /// request. Then the caller gets 504, also where Istio had no time-out.
    pub per_try_timeout: Option<TimeSpan>,
    /// The conditions for a retry, by default `connect-failure,refused-stream`: requests that the
    /// app has never seen.
    pub retry_on: Option<String>,
}

/// A Job beside a sidecar.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The Job's name, by default the policy's.
    pub name: Option<String>,
    /// `true`: it is a CronJob.
    #[serde(default)]
    pub cron: bool,
    /// The name of the container that does the work.
    pub container: String,
    /// The container's whole command with all arguments, because a patch cannot read them.
    pub command: Vec<String>,
    /// An image with the program for hooks and Jobs, `laststream-hook`.
    pub program_image: String,
    /// Where the program is in that image, by default `/laststream`.
    pub program: Option<String>,
}

fn module_count(_: &mut SchemaGenerator) -> Schema {
    let mut count = module_field("count").to_value();
    let listener = json!({ "type": ["integer", "string"] });
    count["properties"]["tcp"] =
        json!({ "type": "array", "items": listener, "description": COUNT_TCP });
    count["properties"]["by"] = json!({ "enum": ["filter", "envoy"], "description": COUNT_BY });
    Schema::try_from(count).unwrap_or_default()
}

const COUNT_BY: &str = "Whose count decides: `filter`, the filter's and Envoy's, which must agree; \
    or `envoy`, Envoy's alone. Then no filter is in the path of requests, and there are no rules \
    for single streams.";

const COUNT_TCP: &str = "The ports of listeners whose TCP connections hold the drain like streams; \
    of a plain Envoy also their names. Envoy's filter `connection_limit` counts them.";

fn module_forwarded_proto(_: &mut SchemaGenerator) -> Schema {
    module_field("forwarded_proto")
}

/// A field of the module's own schema.
fn module_field(name: &str) -> Schema {
    let mut schema = laststream_filter::config::schema::schema();
    let field = schema.pointer_mut(&format!("/properties/{name}")).map(Value::take);
    field.and_then(|field| Schema::try_from(field).ok()).unwrap_or_default()
}

/// The JSON Schema (draft 2020-12) of the policy file.
pub(crate) fn schema() -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<File>().to_value();
    schema["title"] = "laststream policy".into();
    schema
}
