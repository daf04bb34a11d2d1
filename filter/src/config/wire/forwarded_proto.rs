//! How `x-forwarded-proto` is restored.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::count::TextMatch;

/// The header in which the early header mutation of the rendered configuration saves
/// `x-forwarded-proto`.
pub const ORIGINAL_HEADER: &str = "x-laststream-forwarded-proto";

/// The default filter state key of the direct peer's address.
pub const PEER_KEY: &str = "laststream.direct_peer";

/// How `x-forwarded-proto` is restored.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ForwardedProto {
    /// The peers whose headers are believed.
    pub trust: Trust,
    /// Load balancers by name, each for the headers that it writes; read before `sources`. `nlb`
    /// stands alone: it takes the scheme from a port, and forwards headers that clients write.
    pub presets: Vec<Preset>,
    /// Headers that tell the original scheme, in order.
    pub sources: Vec<Source>,
    /// How several sources are combined.
    pub decision: Decision,
    /// The header with the peer's own `x-forwarded-proto`. At an edge Envoy overwrites
    /// `x-forwarded-proto`, so an early header mutation saves it in this header. If Envoy keeps it
    /// (`use_remote_address: false`, or trusted hops), name `x-forwarded-proto`.
    #[default(ORIGINAL_HEADER.into())]
    pub original_header: String,
    /// The schemes of the ports in headers, and in the PROXY protocol header for `nlb`.
    pub ports: Ports,
    /// The value of `x-forwarded-proto` if the peer is not trusted.
    pub fallback: Fallback,
    /// The value of `x-forwarded-proto` if a trusted peer sends no source. The default is `http`,
    /// because the connection of a load balancer tells nothing about its client. If the sources of
    /// a trusted peer contradict each other, the value is always `http`.
    #[default(Fallback::Http)]
    pub silent: Fallback,
    /// Which forgeable headers are removed.
    pub strip: Strip,
    /// Also write `:scheme`. HTTP/2 upstreams, some filters and Envoy's redirects without a scheme
    /// of their own use it: behind a load balancer that ends TLS such redirects say `http://`
    /// without this.
    pub write_scheme: bool,
    /// Also write `x-forwarded-port` if it is absent or contradicts the decision.
    pub write_port: bool,
}

/// The peers whose headers are believed: those that match `peers` or `identities`. At least one
/// entry is required.
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
    /// front of this one writes it. For `nlb` the local address and the direct local address follow
    /// in the same line, with blanks between them. The filter may add three lines, with
    /// `x-forwarded-proto`, the `original_header` and `x-forwarded-port`, so that the module need
    /// not read all headers.
    #[default(PEER_KEY.into())]
    pub peer_key: String,
}

/// A header that tells the original scheme.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The name of the header. `x-forwarded-proto` means the value that the peer sent, see
    /// `original_header`.
    pub header: String,
    /// How its value tells the scheme. The default depends on the header; it is `scheme` for
    /// headers that are not well-known.
    pub form: Option<Form>,
    /// Which element is used if the header holds a list or occurs several times.
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

/// Which element of a list is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Element {
    /// All elements must agree. An element without a scheme contradicts one with a scheme.
    #[default]
    Agree,
    /// The first: that of the proxy nearest to the client.
    First,
    /// The last: that of the direct peer.
    Last,
}

/// How several sources are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// All sources that are present must agree.
    #[default]
    Agree,
    /// The first source that is present decides.
    First,
}

/// The schemes of ports. A port in neither list tells no scheme.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Ports {
    /// Ports of https; the first is the one that `write_port` writes.
    #[cfg_attr(feature = "schema", schemars(inner(range(min = 1))))]
    #[default(vec![443])]
    pub https: Vec<u16>,
    /// Ports of http; the first is the one that `write_port` writes.
    #[cfg_attr(feature = "schema", schemars(inner(range(min = 1))))]
    #[default(vec![80])]
    pub http: Vec<u16>,
}

/// The value of `x-forwarded-proto` if no header is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Fallback {
    /// The scheme of the connection to this Envoy. In a mesh every sidecar connects over mTLS, so
    /// it is `https` there.
    #[default]
    Connection,
    /// `http`, even over TLS.
    Http,
    /// The value does not change. This is cheaper, and safe only if Envoy has overwritten it
    /// (`use_remote_address: true` without trusted hops).
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

/// A load balancer. It stands for the headers that it always overwrites, or for the port in its
/// PROXY protocol header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// AWS Application Load Balancer.
    AwsAlb,
    /// AWS Classic Load Balancer with HTTP or HTTPS listeners.
    AwsClb,
    /// Any load balancer of layer 4 that sends the PROXY protocol, such as an AWS Network Load
    /// Balancer.
    Nlb,
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
    /// Fastly, with a snippet that sets `X-Forwarded-Proto`, because clients can set its own
    /// `Fastly-SSL`.
    Fastly,
    /// Akamai, with a rule that sets `X-Forwarded-Proto`, because it writes no such header by
    /// default.
    Akamai,
    /// The Heroku router.
    Heroku,
    /// nginx, with `proxy_set_header X-Forwarded-Proto $scheme`.
    Nginx,
    /// HAProxy, with `http-request set-header X-Forwarded-Proto`.
    Haproxy,
}

#[cfg(feature = "schema")]
impl Preset {
    /// The vendor's page about the headers, or about the rule that writes them. The table in the
    /// documents shows it; the module is compiled without it.
    pub const fn documentation(self) -> &'static str {
        match self {
            Self::AwsAlb => {
                "https://docs.aws.amazon.com/elasticloadbalancing/latest/application/\
                 x-forwarded-headers.html"
            }
            Self::AwsClb => {
                "https://docs.aws.amazon.com/elasticloadbalancing/latest/classic/\
                 x-forwarded-headers.html"
            }
            Self::Nlb => {
                "https://docs.aws.amazon.com/elasticloadbalancing/latest/network/\
                 edit-target-group-attributes.html#proxy-protocol"
            }
            Self::Cloudfront => {
                "https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/\
                 adding-cloudfront-headers.html"
            }
            Self::Gcp => "https://cloud.google.com/load-balancing/docs/https#target-proxies",
            Self::AzureFrontDoor => {
                "https://learn.microsoft.com/en-us/azure/frontdoor/front-door-http-headers-protocol"
            }
            Self::AzureAppGateway => {
                "https://learn.microsoft.com/en-us/azure/application-gateway/\
                 how-application-gateway-works#modifications-to-the-request"
            }
            Self::Cloudflare => {
                "https://developers.cloudflare.com/fundamentals/reference/http-headers/"
            }
            Self::Fastly => {
                "https://www.fastly.com/documentation/reference/http/http-headers/Fastly-SSL/"
            }
            Self::Akamai => {
                "https://techdocs.akamai.com/property-mgr/docs/modify-outgoing-req-header"
            }
            Self::Heroku => "https://devcenter.heroku.com/articles/http-routing#heroku-headers",
            Self::Nginx => {
                "https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_set_header"
            }
            Self::Haproxy => "https://docs.haproxy.org/3.4/configuration.html#4.2-http-request",
        }
    }
}
