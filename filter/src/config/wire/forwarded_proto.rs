//! How `x-forwarded-proto` is restored.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::count::TextMatch;

/// The saved header of the rendered configuration.
pub const ORIGINAL_HEADER: &str = "x-laststream-forwarded-proto";

/// The filter state key under which the direct peer's address is expected.
pub const PEER_KEY: &str = "laststream.direct_peer";

/// How `x-forwarded-proto` is restored.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ForwardedProto {
    /// The peers whose headers are believed.
    pub trust: Trust,
    /// Load balancers by name, each for the headers that it writes; read before `sources`.
    pub presets: Vec<Preset>,
    /// Headers that tell the original scheme, in order.
    pub sources: Vec<Source>,
    /// How several sources are combined.
    pub decision: Decision,
    /// The header that holds the `x-forwarded-proto` which the peer sent. Envoy overwrites
    /// `x-forwarded-proto` itself at an edge, so an early header mutation saves it here. If
    /// Envoy keeps it (`use_remote_address: false`, or trusted hops), name `x-forwarded-proto`.
    #[default(ORIGINAL_HEADER.into())]
    pub original_header: String,
    /// Which scheme a port in a header stands for.
    pub ports: Ports,
    /// The new `x-forwarded-proto` if the peer is not trusted.
    pub fallback: Fallback,
    /// The new `x-forwarded-proto` if the headers of a trusted peer say nothing. `http`, because
    /// the connection of a load balancer does not show the scheme of its client. If the headers
    /// contradict each other, it is always `http`.
    #[default(Fallback::Http)]
    pub silent: Fallback,
    /// Which forgeable headers are removed.
    pub strip: Strip,
    /// Also write `:scheme`, which HTTP/2 upstreams and some filters look at.
    pub write_scheme: bool,
    /// Also write `x-forwarded-port` if it is missing or contradicts the decision.
    pub write_port: bool,
}

/// The trusted peers: those that match `peers` or `identities`. At least one entry is required.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Trust {
    /// Address ranges of the direct peer, such as `10.0.0.0/8`, `2001:db8::/32`, or a single
    /// address.
    pub peers: Vec<String>,
    /// Identities of the direct peer: the first URI in the subject alternative names of its
    /// verified certificate.
    pub identities: Vec<TextMatch>,
    /// The filter state key that holds the direct peer's address; a `set_filter_state` filter in
    /// front of this one writes it. Three more lines may tell `x-forwarded-proto`, the
    /// `original_header` and `x-forwarded-port`, which saves a look at all headers.
    #[default(PEER_KEY.into())]
    pub peer_key: String,
}

/// A header that tells the original scheme.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The header's name. `x-forwarded-proto` means the one that the peer sent, see
    /// `original_header`.
    pub header: String,
    /// How its value tells the scheme. Well-known headers have a default; for others it is
    /// `scheme`.
    pub form: Option<Form>,
    /// Which element counts if the header is a list or comes several times.
    #[serde(default)]
    pub element: Element,
}

/// How a header's value tells the scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// `http` or `https`; `ws` and `wss` stand for them.
    Scheme,
    /// A port, see `ports`.
    Port,
    /// `on`, `1`, `true`, `yes` for https; `off`, `0`, `false`, `no` for http.
    Flag,
    /// Any value at all means https; absence says nothing.
    Present,
    /// The `proto` parameter of RFC 7239.
    Forwarded,
    /// Cloudflare's `{"scheme":"https"}`.
    CfVisitor,
}

/// Which element of a list counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Element {
    /// All elements must say the same; one that says nothing of a scheme contradicts one that does.
    #[default]
    Agree,
    /// The first, which the proxy nearest to the client wrote.
    First,
    /// The last, which the direct peer wrote.
    Last,
}

/// How several sources are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// All sources that are there must say the same.
    #[default]
    Agree,
    /// The first source that is there decides.
    First,
}

/// Which scheme a port stands for. A port in neither list says nothing.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Ports {
    /// Ports of https; the first is the one that `write_port` writes.
    #[default(vec![443])]
    pub https: Vec<u16>,
    /// Ports of http; the first is the one that `write_port` writes.
    #[default(vec![80])]
    pub http: Vec<u16>,
}

/// The new `x-forwarded-proto` if no header is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Fallback {
    /// The scheme of the connection to this Envoy. In a mesh every sidecar connects over mTLS, so
    /// it is `https` there.
    #[default]
    Connection,
    /// `http`, also over TLS.
    Http,
    /// The current value. Cheaper, and safe only if Envoy has overwritten it (`use_remote_address:
    /// true` without trusted hops).
    Keep,
}

/// Which forgeable headers are removed. Names that differ from a well-known one only in `_` for `-`
/// are its twins: many back ends read both as one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Strip {
    /// From requests of untrusted peers: every header that tells a scheme (all sources and all
    /// well-known ones, but neither `x-forwarded-proto` nor `x-forwarded-port` themselves), and the
    /// twins.
    pub untrusted: bool,
    /// From all requests: the twins.
    pub twins: bool,
}

/// A load balancer, for the headers that it writes itself whatever the client sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// AWS Application Load Balancer.
    AwsAlb,
    /// AWS Classic Load Balancer with HTTP or HTTPS listeners.
    AwsClb,
    /// Amazon CloudFront, with `CloudFront-Forwarded-Proto` in the origin request policy.
    Cloudfront,
    /// Google Cloud external Application Load Balancer.
    Gcp,
    /// Azure Front Door.
    AzureFrontDoor,
    /// Azure Application Gateway.
    AzureAppGateway,
    /// Cloudflare.
    Cloudflare,
    /// Fastly, with a snippet that sets `X-Forwarded-Proto`: it lets clients set its own
    /// `Fastly-SSL`.
    Fastly,
    /// Akamai, with a rule that sets `X-Forwarded-Proto`: it writes no header that tells the scheme
    /// by itself.
    Akamai,
    /// The Heroku router.
    Heroku,
    /// nginx, with `proxy_set_header X-Forwarded-Proto $scheme`.
    Nginx,
    /// HAProxy, with `http-request set-header X-Forwarded-Proto`.
    Haproxy,
}
