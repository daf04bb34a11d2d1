//! The configuration as it is written: one type for each JSON object, nothing checked beyond its shape.
//!
//! The doc comments here are the descriptions in the JSON schema and in the README's table. What the values must be like is said in
//! [`super::check`].

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::object::{object, words};

/// Where the early header mutation of the rendered configuration saves `x-forwarded-proto`.
pub const ORIGINAL_HEADER: &str = "x-laststream-forwarded-proto";

/// The filter state key under which the direct peer's address is expected.
pub const PEER_KEY: &str = "laststream.direct_peer";

/// No drain takes longer: thirty days, in milliseconds. A larger number is a slip.
const LONGEST: u64 = 2_592_000_000;

object! {
    /// Configuration of the laststream module. Every field is optional: `{}` counts streams and touches no header.
    Configuration {
        /// What this instance of the module does.
        role: Role,
        /// Which streams these are; it becomes part of every metric's name, so that directions are told apart.
        scope: Scope,
        /// Which streams are counted, and which of them are long-lived.
        count: Option<Count>,
        /// What the gate waits for and how it makes traffic leave; only with `"role": "gate"`.
        gate: Option<Gate>,
        /// How `x-forwarded-proto` is restored. Without it no header is read or written for that purpose.
        forwarded_proto: Option<ForwardedProto>,
    }
}

words! {
    /// What an instance of the module does.
    Role, optional => {
        /// Sits in the path of the requests: counts streams, restores the scheme.
        Stream = "stream",
        /// Answers on a listener of its own: refuses to drain and quit until the last stream is out.
        Gate = "gate",
    }
}

words! {
    /// Which streams an instance counts.
    Scope, optional => {
        /// Requests that enter the mesh.
        Gateway = "gateway",
        /// Requests to the app beside the proxy.
        Inbound = "inbound",
        /// Requests from the app beside the proxy.
        Outbound = "outbound",
    }
}

object! {
    /// Which streams are counted.
    Count {
        /// Streams that match any of these rules are not counted. Any rule costs a read of the headers of every request.
        exclude: Exclude,
        /// Streams that match any of these rules are counted as long-lived too, so that a drain can treat them apart.
        long_lived: LongLived,
    }
}

object! {
    /// Rules for streams that are not counted.
    Exclude {
        /// Paths, without the query string.
        paths: Vec<TextMatch>,
        /// Request headers.
        headers: Vec<HeaderMatch>,
        /// The user agents of well-known health checkers (kubelet, Envoy, the clouds' load balancers, Consul).
        health_checks: bool,
    }
}

object! {
    /// Rules for streams that live long by nature.
    LongLived {
        /// Upgrades (WebSocket and others) and CONNECT.
        upgrades: bool,
        /// Requests whose content type is gRPC. Unary calls look the same as streaming ones.
        grpc: bool,
        /// Requests that accept `text/event-stream`.
        event_streams: bool,
        /// Paths, without the query string.
        paths: Vec<TextMatch>,
        /// Request headers.
        headers: Vec<HeaderMatch>,
        /// Names of Envoy's routes.
        routes: Vec<TextMatch>,
    }
}

object! {
    /// A text to compare with: either `exact` or `prefix`. Upper and lower case differ.
    TextMatch {
        /// The whole text.
        exact: Option<String>,
        /// The beginning of the text.
        prefix: Option<String>,
    }
}

object! {
    /// A request header: present, or with a value to compare with (`exact` or `prefix`).
    HeaderMatch {
        /// The header's name.
        name: String,
        /// One of the header's values is this.
        exact: Option<String>,
        /// One of the header's values begins with this.
        prefix: Option<String>,
    }
}

object! {
    /// How `x-forwarded-proto` is restored.
    ForwardedProto {
        /// Whose headers are believed.
        trust: Trust,
        /// Load balancers by name, each for the headers that it writes; read before `sources`.
        presets: Vec<Preset>,
        /// Headers that tell the original scheme, in order.
        sources: Vec<Source>,
        /// What several sources must do to be believed.
        decision: Decision,
        /// The header that holds the `x-forwarded-proto` which the peer sent. Envoy overwrites `x-forwarded-proto` itself at an edge, so an
        /// early header mutation saves it here. Where Envoy keeps it (`use_remote_address: false`, or trusted hops), name `x-forwarded-proto`.
        original_header: String = ORIGINAL_HEADER.into(),
        /// Which scheme a port in a header stands for.
        ports: Ports,
        /// What `x-forwarded-proto` becomes when the peer is not trusted.
        fallback: Fallback,
        /// What `x-forwarded-proto` becomes when a trusted peer says nothing. `http`, because the connection of a load balancer tells
        /// nothing about its client. When a trusted peer contradicts itself, it is always `http`.
        silent: Fallback = Fallback::Http,
        /// Which forgeable headers are removed.
        strip: Strip,
        /// Also write `:scheme`, which HTTP/2 upstreams and some filters look at.
        write_scheme: bool,
        /// Also write `x-forwarded-port` where it is absent or contradicts the decision.
        write_port: bool,
    }
}

object! {
    /// Whose headers are believed: a peer that matches `peers` or `identities`. At least one entry is required.
    Trust {
        /// Address ranges of the direct peer, such as `10.0.0.0/8`, `2001:db8::/32`, or a single address.
        peers: Vec<String>,
        /// Identities of the direct peer: the first URI in the subject alternative names of its verified certificate.
        identities: Vec<TextMatch>,
        /// The filter state key that holds the direct peer's address; a `set_filter_state` filter in front of this one writes it. Three more
        /// lines may tell `x-forwarded-proto`, the `original_header` and `x-forwarded-port`, which saves a look at all headers.
        peer_key: String = PEER_KEY.into(),
    }
}

object! {
    /// A header that tells the original scheme.
    Source {
        /// The header's name. `x-forwarded-proto` means the one that the peer sent, see `original_header`.
        header: String,
        /// How its value tells the scheme. Well-known headers know theirs; `scheme` for all others.
        form: Option<Form>,
        /// Which element counts when the header holds a list or comes several times.
        element: Element,
    }
}

words! {
    /// How a header's value tells the scheme.
    Form, required => {
        /// `http` or `https`; `ws` and `wss` stand for them.
        Scheme = "scheme",
        /// A port, see `ports`.
        Port = "port",
        /// `on`, `1`, `true`, `yes` for https; `off`, `0`, `false`, `no` for http.
        Flag = "flag",
        /// Any value at all means https; absence says nothing.
        Present = "present",
        /// The `proto` parameter of RFC 7239.
        Forwarded = "forwarded",
        /// Cloudflare's `{"scheme":"https"}`.
        CfVisitor = "cf_visitor",
    }
}

words! {
    /// Which element of a list counts.
    Element, optional => {
        /// All elements must say the same; one that says nothing of a scheme contradicts one that does.
        Agree = "agree",
        /// The first, which the proxy nearest to the client wrote.
        First = "first",
        /// The last, which the direct peer wrote.
        Last = "last",
    }
}

words! {
    /// What several sources must do to be believed.
    Decision, optional => {
        /// All sources that are there must say the same.
        Agree = "agree",
        /// The first source that is there decides.
        First = "first",
    }
}

object! {
    /// Which scheme a port stands for. A port in neither list says nothing.
    Ports {
        /// Ports of https; the first is the one that `write_port` writes.
        https: Vec<u16> = vec![443],
        /// Ports of http; the first is the one that `write_port` writes.
        http: Vec<u16> = vec![80],
    }
}

words! {
    /// What `x-forwarded-proto` becomes when no header is believed.
    Fallback, optional => {
        /// The scheme of the connection to this Envoy. In a mesh every sidecar connects over mTLS, so it is `https` there.
        Connection = "connection",
        /// `http`, also over TLS.
        Http = "http",
        /// What it is. Cheaper, and safe only where Envoy has overwritten it (`use_remote_address: true` without trusted hops).
        Keep = "keep",
    }
}

object! {
    /// Which forgeable headers are removed. Names that differ from a well-known one only in `_` for `-` are its twins: many back ends
    /// read both as one.
    Strip {
        /// From requests of untrusted peers: every header that tells a scheme (all sources and all well-known ones, but neither
        /// `x-forwarded-proto` nor `x-forwarded-port` themselves), and the twins.
        untrusted: bool,
        /// From all requests: the twins.
        twins: bool,
    }
}

words! {
    /// A load balancer, for the headers that it writes itself whatever the client sent.
    Preset, required => {
        /// AWS Application Load Balancer.
        AwsAlb = "aws_alb",
        /// AWS Classic Load Balancer with HTTP or HTTPS listeners.
        AwsClb = "aws_clb",
        /// Amazon CloudFront, with `CloudFront-Forwarded-Proto` in the origin request policy.
        Cloudfront = "cloudfront",
        /// Google Cloud external Application Load Balancer.
        Gcp = "gcp",
        /// Azure Front Door.
        AzureFrontDoor = "azure_front_door",
        /// Azure Application Gateway.
        AzureAppGateway = "azure_app_gateway",
        /// Cloudflare.
        Cloudflare = "cloudflare",
        /// Fastly, with a snippet that sets `X-Forwarded-Proto`: it lets clients set its own `Fastly-SSL`.
        Fastly = "fastly",
        /// Akamai, with a rule that sets `X-Forwarded-Proto`: it writes no header that tells the scheme by itself.
        Akamai = "akamai",
        /// The Heroku router.
        Heroku = "heroku",
        /// nginx, with `proxy_set_header X-Forwarded-Proto $scheme`.
        Nginx = "nginx",
        /// HAProxy, with `http-request set-header X-Forwarded-Proto`.
        Haproxy = "haproxy",
    }
}

object! {
    /// What the gate waits for and how it makes traffic leave.
    Gate {
        /// Whose streams it waits for.
        scopes: Vec<Scope> = vec![Scope::Gateway],
        /// How long nothing may be in flight, and nothing begin, before it is believed; milliseconds.
        quiet_ms: u64 = 1000 => 200..=LONGEST,
        /// How long zero must last where Envoy does not tell whether bytes still wait to be written; milliseconds.
        linger_ms: u64 = 500 => 0..=LONGEST,
        /// When it is over whatever happens, from the beginning of the drain; milliseconds. The usual grace period of a pod, less what
        /// Istio's agent and kubelet need after the hook.
        deadline_ms: u64 = 23_000 => 201..=LONGEST,
        /// How long `expired` and `forced` last while Envoy stays alive; then the gate serves again, and the next hook begins a new drain
        /// with a new deadline; milliseconds.
        open_ms: u64 = 30_000 => 1_000..=LONGEST,
        /// Where Envoy does not export its own count of requests: how long the youngest counter must have counted before its zero is
        /// believed, since streams may be older than it; milliseconds.
        assumed_after_ms: u64 = 60_000 => 0..=LONGEST,
        /// What long-lived streams do to the drain.
        long_lived: LongLivedPolicy,
        /// Streams that are older than this when the drain begins are long-lived, too; milliseconds.
        long_lived_after_ms: Option<u64>,
        /// How the drain begins.
        begin: Begin,
        /// The last call, once the last stream is out.
        finish: Finish,
        /// How Envoy's admin interface is reached.
        admin: Admin,
        /// Also wait until the app has gone, so that the proxy outlives it.
        app: Option<App>,
        /// What state-changing requests, and the listing of streams, must carry in `x-laststream-secret`: 16 visible ASCII characters or
        /// more. Here it stands in clear text: prefer `secret_key`. One of both is required when the listener is not on the loopback
        /// interface.
        secret: Option<String>,
        /// The filter state key that holds the secret, which a `set_filter_state` filter in front of the gate writes from a place outside
        /// of the configuration, such as `%ENVIRONMENT(NAME)%`. While nothing is there, the gate refuses what needs the secret.
        secret_key: Option<String>,
        /// Names under which the gate may be asked, besides IP addresses and `localhost`. A request to any other name is refused: a page
        /// in a browser can reach this machine under a name of its own (DNS rebinding).
        hosts: Vec<String>,
    }
}

words! {
    /// What long-lived streams do to the drain.
    LongLivedPolicy, optional => {
        /// They hold it like all others.
        Wait = "wait",
        /// They do not hold it, and are reported apart.
        Exempt = "exempt",
    }
}

object! {
    /// How the drain begins.
    Begin {
        /// What is asked of Envoy.
        call: BeginCall,
        /// Only listeners of inbound traffic are drained. For sidecars; it does nothing on a gateway.
        inbound_only: bool,
        /// How long to wait before, while the endpoint's removal spreads; milliseconds.
        delay_ms: u64 = 0 => 0..=LONGEST,
    }
}

words! {
    /// What makes traffic leave.
    BeginCall, optional => {
        /// `/drain_listeners?graceful&skip_exit`: responses tell clients to close. It cannot be taken back.
        DrainListeners = "drain_listeners",
        /// `/healthcheck/fail`: the same for both directions; it can be taken back.
        FailHealthChecks = "fail_health_checks",
        /// Nothing; somebody else sees to it.
        Nothing = "nothing",
    }
}

words! {
    /// The last call, made at zero and never at the deadline.
    Finish, optional => {
        /// None.
        Nothing = "nothing",
        /// `POST /drain` to Istio's agent: at SIGTERM it then ends at once.
        DrainAgent = "drain_agent",
        /// `POST /quitquitquit` to Envoy.
        Quit = "quit",
    }
}

object! {
    /// How Envoy's admin interface, and Istio's agent, are reached.
    Admin {
        /// The cluster of the admin interface; Istio's bootstrap has this one.
        cluster: String = "prometheus_stats".into(),
        /// The cluster of Istio's agent.
        agent_cluster: String = "agent".into(),
        /// How long an answer may take; milliseconds.
        timeout_ms: u64 = 1000 => 50..=60_000,
        /// Stat prefixes of connection managers whose requests do not hold the drain.
        ignore: Vec<String> = vec!["admin".into(), "stats".into(), "agent".into(), "laststream".into()],
    }
}

object! {
    /// The app beside the proxy.
    App {
        /// Its cluster, without TLS.
        cluster: String,
        /// What is asked of it. It has gone when its port refuses connections. An app that hangs, breaks off or says 503 is there; with one
        /// that Envoy cannot ask, the gate holds until the deadline.
        path: String = "/".into(),
    }
}
