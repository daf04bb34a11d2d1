//! The table of compared variants. Each is the output of `laststream render envoy` for a policy, or
//! that with another filter in place of the module. A new variant is a new row.

use laststream_local::envoy::{OLDEST, Version};
use laststream_policy::{Overrides, Policy};
use laststream_render::{Kind, render};

use crate::flood::Ask;
use crate::scripts::{LUA_BY_ALB, LUA_BY_PORT};
use crate::site::Site;
use kit::bootstrap::extension;
use kit::prelude::*;

/// The filters through which requests pass.
#[derive(Clone, Copy)]
enum Chain {
    /// Only the router.
    Empty,
    /// A script of the Lua filter.
    Lua(&'static str),
    /// The filters that are rendered from the policy.
    Rendered,
}

/// The engine of a policy.
#[derive(Clone, Copy)]
struct Engine {
    /// The policy's field that chooses it.
    field: &'static str,
    /// Its part of a variant's title.
    title: &'static str,
    /// The first Envoy that has it.
    since: Version,
}

/// The engine that `render` chooses for a plain Envoy.
const USUAL: Engine = Engine { field: "", title: "", since: OLDEST };
const WASM: Engine = Engine { field: "engine: wasm, ", title: ", Wasm", since: OLDEST };
/// It needs an Envoy whose composite filter has a matcher.
const COMPOSITE: Engine =
    Engine { field: "engine: composite, ", title: ", composite", since: Version::new(1, 39, 0) };

#[derive(Clone, Copy)]
pub(crate) struct Variant {
    /// The name on the command line and in results.json.
    pub(crate) name: &'static str,
    /// The name in tables, without that of the engine.
    title: &'static str,
    chain: Chain,
    policy: &'static str,
    engine: Engine,
    /// The scheme in the load balancer's headers.
    said: &'static str,
    /// The `x-forwarded-proto` that the app must get.
    pub(crate) seen: &'static str,
    /// Whether the same Envoy has a gate, without requests.
    pub(crate) beside_gate: bool,
    /// The Lua that does the same work, except counting.
    pub(crate) lua: &'static str,
}

/// The variant over which all others are measured.
pub(crate) const NO_FILTER: &str = "no-filter";
pub(crate) const LUA_PORT: &str = "lua-port";
pub(crate) const LUA_ALB: &str = "lua-alb";
pub(crate) const BY_ENVOY_PORT_CHANGED: &str = "by-envoy-port-changed-composite";
pub(crate) const BY_ENVOY_ALB_CHANGED: &str = "by-envoy-alb-changed-composite";
pub(crate) const COUNTING: &str = "counting";
pub(crate) const PORT_CHANGED: &str = "port-changed";
pub(crate) const PORT_CHANGED_WASM: &str = "port-changed-wasm";
pub(crate) const ALB_CHANGED: &str = "alb-changed";
pub(crate) const ALB_CHANGED_WASM: &str = "alb-changed-wasm";
pub(crate) const PORT_CHANGED_COMPOSITE: &str = "port-changed-composite";
pub(crate) const ALB_CHANGED_COMPOSITE: &str = "alb-changed-composite";
pub(crate) const GATE_NO_FILTER: &str = "gate-no-filter";
pub(crate) const GATE_COUNTING: &str = "gate-counting";
pub(crate) const GATE_BY_ENVOY: &str = "gate-by-envoy";

const DEFAULT: &str = "{}";
/// One header of the load balancer decides.
const PORT: &str =
    "{forwarded_proto: {sources: [{header: x-forwarded-port}], trust: {peers: [127.0.0.0/8]}}}";
/// Two headers that must agree; one of them is saved before Envoy overwrites it.
const ALB: &str = "{forwarded_proto: {presets: [aws_alb], trust: {peers: [127.0.0.0/8]}}}";
const EXCLUSIONS: &str = "{count: {exclude: {health_checks: true, paths: [{exact: /healthz}]}}}";

/// No filter counts; the route that is the latch stands in the path.
const BY_ENVOY: &str = "{count: {by: envoy}}";
const BY_ENVOY_PORT: &str = "{count: {by: envoy}, forwarded_proto: {sources: [{header: \
    x-forwarded-port}], trust: {peers: [127.0.0.0/8]}}}";
const BY_ENVOY_ALB: &str = "{count: {by: envoy}, forwarded_proto: {presets: [aws_alb], trust: \
    {peers: [127.0.0.0/8]}}}";

const PLAIN: Variant = Variant {
    name: "",
    title: "counting only",
    chain: Chain::Rendered,
    policy: DEFAULT,
    engine: USUAL,
    said: "https",
    seen: "http", // Envoy's own value for a connection without TLS
    beside_gate: false,
    lua: LUA_PORT,
};
/// The scheme of the load balancer must reach the app.
const BY_PORT: Variant =
    Variant { title: "counting + scheme by port, changed", policy: PORT, seen: "https", ..PLAIN };
const BY_ALB: Variant = Variant {
    title: "counting + scheme by aws_alb, changed",
    policy: ALB,
    seen: "https",
    lua: LUA_ALB,
    ..PLAIN
};
/// The load balancer sends the scheme that Envoy sees, too.
const ALB_UNCHANGED: Variant = Variant {
    title: "counting + scheme by aws_alb, unchanged",
    said: "http",
    seen: "http",
    ..BY_ALB
};

const ALL: [Variant; 20] = [
    Variant { name: NO_FILTER, title: "no filter", chain: Chain::Empty, ..PLAIN },
    Variant {
        name: LUA_PORT,
        title: "Lua: scheme by port",
        chain: Chain::Lua(LUA_BY_PORT),
        ..BY_PORT
    },
    Variant {
        name: LUA_ALB,
        title: "Lua: scheme by aws_alb",
        chain: Chain::Lua(LUA_BY_ALB),
        ..BY_ALB
    },
    Variant { name: "by-envoy", title: "counting by Envoy", policy: BY_ENVOY, ..PLAIN },
    Variant {
        name: BY_ENVOY_PORT_CHANGED,
        title: "counting by Envoy + scheme by port, changed",
        policy: BY_ENVOY_PORT,
        engine: COMPOSITE,
        ..BY_PORT
    },
    Variant {
        name: BY_ENVOY_ALB_CHANGED,
        title: "counting by Envoy + scheme by aws_alb, changed",
        policy: BY_ENVOY_ALB,
        engine: COMPOSITE,
        ..BY_ALB
    },
    Variant { name: COUNTING, ..PLAIN },
    Variant {
        name: "counting-exclusions",
        title: "counting with exclusions",
        policy: EXCLUSIONS,
        ..PLAIN
    },
    Variant { name: PORT_CHANGED, ..BY_PORT },
    Variant { name: PORT_CHANGED_WASM, engine: WASM, ..BY_PORT },
    Variant { name: PORT_CHANGED_COMPOSITE, engine: COMPOSITE, ..BY_PORT },
    Variant { name: ALB_CHANGED, ..BY_ALB },
    Variant { name: ALB_CHANGED_WASM, engine: WASM, ..BY_ALB },
    Variant { name: ALB_CHANGED_COMPOSITE, engine: COMPOSITE, ..BY_ALB },
    Variant { name: "alb-unchanged", ..ALB_UNCHANGED },
    Variant { name: "alb-unchanged-wasm", engine: WASM, ..ALB_UNCHANGED },
    Variant { name: "alb-unchanged-composite", engine: COMPOSITE, ..ALB_UNCHANGED },
    Variant {
        name: GATE_NO_FILTER,
        title: "no filter beside an idle gate",
        chain: Chain::Empty,
        beside_gate: true,
        ..PLAIN
    },
    Variant { name: GATE_COUNTING, title: "counting only, gate idle", beside_gate: true, ..PLAIN },
    Variant {
        name: GATE_BY_ENVOY,
        title: "counting by Envoy, gate idle",
        policy: BY_ENVOY,
        beside_gate: true,
        ..PLAIN
    },
];

/// The variants that the words select: a word is a variant's name, or else a part of names. Their
/// bases come along. Without words, all variants. Those that this Envoy does not have are left out.
pub(crate) fn chosen(words: &[impl AsRef<str>], envoy: Version) -> Outcome<Vec<Variant>> {
    let is_name = |word: &str| ALL.iter().any(|variant| variant.name == word);
    let fits =
        |name: &str, word: &str| if is_name(word) { name == word } else { name.contains(word) };
    let named = |variant: &Variant| words.iter().any(|word| fits(variant.name, word.as_ref()));
    for word in words.iter().map(AsRef::as_ref) {
        ensure!(
            ALL.iter().any(|variant| fits(variant.name, word)),
            "no variant is called {word}; there are {}",
            ALL.map(|variant| variant.name).join(", ")
        );
    }
    let wanted: Vec<Variant> = ALL
        .into_iter()
        .filter(|variant| variant.engine.since <= envoy && (words.is_empty() || named(variant)))
        .collect();
    let needed = |variant: &Variant| {
        wanted.iter().any(|other| other.name == variant.name || variant.is_base_of(other))
    };
    Ok(ALL.into_iter().filter(needed).collect())
}

impl Variant {
    /// The name in tables.
    pub(crate) fn title(&self) -> String {
        [self.title, self.engine.title].concat()
    }

    /// Whether the module counts its requests.
    pub(crate) fn counts(&self) -> bool {
        matches!(self.chain, Chain::Rendered) && !self.is_by_envoy()
    }

    fn is_by_envoy(&self) -> bool {
        self.policy.starts_with(&BY_ENVOY[..BY_ENVOY.len() - 1])
    }

    /// Whether the other variant is measured over this one.
    fn is_base_of(&self, other: &Self) -> bool {
        self.is_base() && self.beside_gate == other.beside_gate
    }

    pub(crate) fn is_base(&self) -> bool {
        matches!(self.chain, Chain::Empty)
    }

    /// The variant's listener. It answers `/` itself, and shows the app's `x-forwarded-proto` at
    /// `/seen`.
    pub(crate) fn listener(&self, site: &Site) -> Outcome<Value> {
        let mut listener = self.rendered(site, 0)?;
        listener["name"] = json!(self.name);
        let manager = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
        manager["stat_prefix"] = json!(self.name);
        let answer = json!({ "status": 200, "body": { "inline_string": "ok" } });
        let told = json!([{ "header": { "key": "x-seen", "value": "%REQ(x-forwarded-proto)%" } }]);
        let routes = &mut manager["route_config"]["virtual_hosts"][0]["routes"];
        let latch = self.is_by_envoy().then(|| routes[0].take());
        let own = [
            json!({ "match": { "path": "/" }, "direct_response": answer }),
            json!({
                "match": { "path": "/seen" }, "direct_response": answer,
                "response_headers_to_add": told,
            }),
        ];
        *routes = latch.into_iter().chain(own).collect();
        if let Some(filters) = self.chain.filters() {
            let router =
                manager["http_filters"].as_array_mut().and_then(Vec::pop).context("no router")?;
            manager["http_filters"] = filters.into_iter().chain([router]).collect();
        }
        Ok(listener)
    }

    /// The gate's listener, `gate`.
    pub(crate) fn gate(&self, site: &Site) -> Outcome<Value> {
        self.rendered(site, 1)
    }

    /// A listener of the bootstrap that is rendered from the policy, on any free port.
    fn rendered(&self, site: &Site, index: usize) -> Outcome<Value> {
        let overrides =
            Overrides { module: Some(site.module.display().to_string()), ..Overrides::default() };
        let fields = &self.policy[1..];
        let policy = format!("{{placement: {{envoy: {{}}}}, {}{fields}", self.engine.field);
        let policy = Policy::read(policy.as_bytes(), &overrides).context("the policy")?;
        let rendered = render(Kind::Envoy, &policy, &|_, _| Err("nothing to resolve".into()))
            .map_err(Error::msg)?;
        let text = &rendered.files.first().context("nothing rendered")?.text;
        let mut bootstrap: Value =
            serde_saphyr::from_str(text).context("the rendered bootstrap")?;
        let mut listener = bootstrap["static_resources"]["listeners"][index].take();
        listener["address"]["socket_address"]["port_value"] = json!(0);
        Ok(listener)
    }

    /// The target, the request, and the end of its answer, for a load.
    pub(crate) async fn ask(&self, envoy: &Envoy) -> Outcome<Ask> {
        let (to, request) = (envoy.address(self.name).await?, self.request("/").bytes());
        Ok(Ask { to, request, end: b"\r\n\r\nok" })
    }

    /// A request as a load balancer sends it for a browser.
    pub(crate) fn request(&self, path: &str) -> Request {
        Request::get(path)
            .host("shop.example.com")
            .header(
                "user-agent",
                "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
            )
            .header("accept", "*/*")
            .header("accept-encoding", "gzip, deflate, br")
            .header("x-forwarded-for", "203.0.113.7")
            .header("x-forwarded-proto", self.said)
            .header("x-forwarded-port", if self.said == "https" { "443" } else { "80" })
            .header("x-amzn-trace-id", "Root=1-67891233-abcdef012345678912345678")
    }
}

impl Chain {
    /// The filters that replace the rendered ones, if any.
    fn filters(self) -> Option<Vec<Value>> {
        match self {
            Self::Empty => Some(Vec::new()),
            Self::Lua(script) => {
                let source = json!({ "default_source_code": { "inline_string": script } });
                Some(vec![extension(
                    "envoy.filters.http.lua",
                    "envoy.extensions.filters.http.lua.v3.Lua",
                    source,
                )])
            }
            Self::Rendered => None,
        }
    }
}
