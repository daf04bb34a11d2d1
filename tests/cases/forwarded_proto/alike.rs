//! Compares the module's own decision, in plain Rust, with that of Envoy's matchers as rendered:
//! many policies, each with a listener in one Envoy, and many generated requests.

use std::net::{IpAddr, SocketAddr};

use fastrand::Rng;
use laststream_filter::config::{self, Config};
use laststream_filter::forwarded::Scheme;
use laststream_filter::headers::Headers;
use laststream_policy::file::Engine;
use serde_json::{Value, json};

use super::engines::{self, FIRST_WITH_COMPOSITE, Place};
use crate::lab::Lab;
use kit::forwarded_proto::cells::{Line, shown};
use kit::forwarded_proto::client::{Connection, Way};
use kit::forwarded_proto::table::Protocol;
use kit::prelude::*;

const SEED: u64 = 20_261_121;
const POLICIES: usize = 90;
/// The number of requests from each peer, for each policy.
const REQUESTS: usize = 10;
const PEERS: [&str; 4] = ["127.0.0.1", "127.0.0.9", "127.0.1.2", "127.8.0.1"];
const PROTO: &str = "x-forwarded-proto";
/// Response headers with the resulting scheme and with the route.
const SEEN: &str = "x-seen";
const ROUTE: &str = "x-route";

pub(super) async fn all_engines_decide_alike(lab: &Lab) -> Outcome {
    decide_alike(lab, Engine::Native).await?;
    if lab.version < FIRST_WITH_COMPOSITE {
        return Ok(());
    }
    decide_alike(lab, Engine::Composite).await
}

async fn decide_alike(lab: &Lab, engine: Engine) -> Outcome {
    let mut rng = Rng::with_seed(SEED);
    let policies: Vec<Policy> = (0..POLICIES)
        .map(|number| Policy::any(&mut rng, engine, number))
        .collect::<Outcome<_>>()?;
    let upstream = Upstream::start().await?;
    let mut bootstrap = Bootstrap::new().cluster(cluster::h1("upstream", upstream.h1()));
    for policy in &policies {
        bootstrap = bootstrap.listener(policy.listener()?);
    }
    let envoy = Envoy::start(
        &lab.envoy,
        bootstrap.build(),
        Options { concurrency: 1, ..Options::default() },
    )
    .await?;
    let mut decided = [0; 3];
    for policy in &policies {
        let to = envoy.address(&policy.name).await?;
        for peer in PEERS {
            policy
                .asked_from(peer.parse()?, to, &mut rng, &mut decided)
                .await
                .with_context(|| format!("{}, from {peer}", policy.text))?;
        }
    }
    ensure!(
        decided.iter().all(|count| *count > POLICIES * REQUESTS / 10),
        "https, http and fallback: {decided:?} are too few of one"
    );
    Ok(())
}

struct Policy {
    name: String,
    text: String,
    config: Config,
    engine: Engine,
    place: Place,
    /// Whether Envoy overwrites `x-forwarded-proto`. Otherwise it keeps the peer's value, unless a
    /// rendered part removes it.
    overwrites: bool,
}

impl Policy {
    fn any(rng: &mut Rng, engine: Engine, number: usize) -> Outcome<Self> {
        let third = if engine == Engine::Native { Place::Patches } else { Place::Sidecar };
        let place = [Place::Gateway, third, Place::Bootstrap][number % 3];
        let fallbacks = ["connection", "connection", "http", "keep"];
        let (fallback, mut silent) =
            (one(rng, &fallbacks), one(rng, &["http", "http", "connection", "keep"]));
        // Matchers either always keep the peer's own header, or always replace it with the
        // connection's scheme; a policy cannot have both.
        if [fallback, silent].contains(&"keep") && [fallback, silent].contains(&"connection") {
            silent = "http";
        }
        let text = json!({ "forwarded_proto": {
            "trust": { "peers": some(rng, &RANGES) },
            "sources": sources(rng),
            "decision": one(rng, &["agree", "first"]),
            "ports": {
                "https": some(rng, &[443, 8443, 2, 65535, 10443]),
                "http": some(rng, &[80, 8080, 1]),
            },
            "fallback": fallback,
            "silent": silent,
        } });
        let text = text.to_string();
        let config = config::parse(text.as_bytes())
            .map_err(|refused| kit::Error::msg(refused.to_string()))?;
        let overwrites = rng.bool();
        Ok(Self { name: format!("policy-{number}"), text, config, engine, place, overwrites })
    }

    fn listener(&self) -> Outcome<Listener> {
        let form =
            engines::native(&self.text, self.engine, self.place)?.map_err(kit::Error::msg)?;
        let route = |name: &str| {
            let told =
                |header: &str, value: &str| json!({ "header": { "key": header, "value": value } });
            let told = json!([told(ROUTE, name), told(SEEN, &format!("%REQ({PROTO})%"))]);
            Route::prefix("/").direct(200, "").with("/response_headers_to_add", told)
        };
        let redirected = Route::prefix("/redirect/")
            .cluster("upstream")
            .follow_redirects()
            .with("/request_headers_to_remove", json!(["x-laststream-forwarded-proto"]));
        let hcm = Hcm::new(&self.name)
            .use_remote_address(self.overwrites, 0)
            .route(redirected)
            .route(route("https").header(PROTO, "https"))
            .route(route("http"));
        let hcm = form.early.into_iter().fold(hcm, Hcm::early_mutations);
        Ok(Listener::new(&self.name, form.filters.into_iter().fold(hcm, Hcm::filter)))
    }

    async fn asked_from(
        &self,
        from: IpAddr,
        to: SocketAddr,
        rng: &mut Rng,
        decided: &mut [usize; 3],
    ) -> Outcome {
        let policy = self.config.forwarded_proto().context("a policy")?;
        let trusted = policy.trust.peers.contains(from);
        let way = Way { to, from, protocol: Protocol::H1, proxied: None, tls: None };
        let mut connection = Connection::open(way).await?;
        let names: Vec<&str> = policy.sources.iter().map(|source| source.header.as_str()).collect();
        for _ in 0..REQUESTS {
            let lines = request(rng, &names);
            let map = as_the_module_sees_it(&lines);
            let scheme = policy.decide(Headers::new(&map), trusted, Scheme::Http);
            let known = policy.decide(Headers::new(&map), trusted, Scheme::Https);
            let is_undecided = scheme != known || scheme.is_none();
            decided[if is_undecided { 2 } else { usize::from(scheme == Some(Scheme::Http)) }] += 1;
            let Some(expected) =
                scheme.map(|scheme| scheme.name().into()).or_else(|| self.kept(&lines))
            else {
                continue;
            };
            for path in ["/", "/redirect/"] {
                let answer = connection.get("test", path, &lines).await?;
                let told = format!("{path} with {}", in_words(&lines));
                let mut headers = answer.headers.0.iter();
                let seen = headers.find(|(name, _)| name.eq_ignore_ascii_case(SEEN));
                let seen = seen.map(|(_, value)| shown(value));
                ensure_eq!(seen, Some(shown(&expected)), "{PROTO} of {told}");
                let expected_route = if expected == b"https" { "https" } else { "http" };
                let route = answer.headers.get(ROUTE);
                ensure_eq!(route.as_deref(), Some(expected_route), "the route of {told}");
            }
        }
        Ok(())
    }

    /// The value of `x-forwarded-proto` if the policy leaves it to Envoy. `None`, and not compared,
    /// if a line of the peer's own header is empty, because Envoy passes that on, too.
    fn kept(&self, lines: &[Line]) -> Option<Vec<u8>> {
        let own: Vec<&[u8]> = lines
            .iter()
            .filter(|line| line.name == PROTO)
            .map(|line| line.value.as_slice())
            .collect();
        if self.overwrites || own.is_empty() || matches!(self.place, Place::Bootstrap) {
            return Some(b"http".to_vec());
        }
        own.iter().all(|value| !value.is_empty()).then(|| own.join(&b','))
    }
}

const RANGES: [&str; 9] = [
    "127.0.0.0/29",
    "127.0.0.0/24",
    "127.0.0.9",
    "127.0.0.0/16",
    "127.0.1.0/31",
    "127.0.1.2/31",
    "::ffff:127.0.1.0/120",
    "10.0.0.0/8",
    "2001:db8::/32",
];

fn sources(rng: &mut Rng) -> Value {
    let mut known = vec![
        json!({ "header": PROTO }),
        json!({ "header": "x-forwarded-port" }),
        json!({ "header": "x-forwarded-ssl" }),
        json!({ "header": "x-own", "form": "scheme" }),
        json!({ "header": "x-port", "form": "port" }),
    ];
    rng.shuffle(&mut known);
    known.truncate(rng.usize(1..=3));
    for source in &mut known {
        source["element"] = one(rng, &["agree", "agree", "first", "last"]).into();
    }
    known.into()
}

/// Usually headers as a load balancer would send them, otherwise any values.
fn request(rng: &mut Rng, names: &[&str]) -> Vec<Line> {
    let mut lines = Vec::new();
    let all_say = one(rng, &["https", "http"]);
    let odd = rng.u8(..3) == 0;
    for name in names {
        // The saved header is read with the value of the peer's own header, so that header is set
        // here. Below, the saved header itself is forged.
        let name = if *name == "x-laststream-forwarded-proto" { PROTO } else { name };
        if !odd && rng.u8(..5) > 0 {
            lines.push(Line { name: name.into(), value: usual(name, all_say).into() });
            continue;
        }
        for _ in 0..rng.usize(..3) {
            lines.push(Line { name: name.into(), value: value(rng) });
        }
    }
    if lines.iter().all(|line| line.name != PROTO) && rng.bool() {
        lines.push(Line { name: PROTO.into(), value: one(rng, &["https", "http"]).into() });
    }
    if rng.u8(..4) == 0 {
        lines.push(Line { name: "x-laststream-forwarded-proto".into(), value: b"https".to_vec() });
    }
    lines
}

fn usual(name: &str, says: &str) -> &'static str {
    match (name, says) {
        ("x-forwarded-port" | "x-port", "https") => "443",
        ("x-forwarded-port" | "x-port", _) => "80",
        ("x-forwarded-ssl", "https") => "on",
        ("x-forwarded-ssl", _) => "off",
        (_, "https") => "https",
        _ => "http",
    }
}

fn in_words(lines: &[Line]) -> String {
    let words = lines.iter().map(|line| format!("{}: {}", line.name, shown(&line.value)));
    words.collect::<Vec<_>>().join(" ")
}

fn value(rng: &mut Rng) -> Vec<u8> {
    #[rustfmt::skip]
    const WORDS: [&[u8]; 39] = [
        b"https", b"https", b"HTTPS", b"wss", b"http", b"http", b"Http", b"ws", b"httpss",
        b"xhttps", b"", b"443", b"443", b"0443", b"80", b"80", b"8443", b"8080", b"0", b"1",
        b"10443", b"65535", b"65536", b"99999", b"+443", b"443.0", b"00000000000000443", b"on",
        b"ON", b"yes", b"off", b"No", b"2", b"\xff", b"https\xff", b"ht tps",
        b"http\xc5\xbf", b"W\xc5\xbfs", b"ye\xc5\xbf", // the long s, which is an s to Unicode
    ];
    const BETWEEN: [&[u8]; 5] = [b",", b", ", b"\t,", b",,", b" , , "];
    let mut value = Vec::new();
    for index in 0..rng.usize(1..=3) {
        if index > 0 {
            value.extend_from_slice(BETWEEN[rng.usize(..BETWEEN.len())]);
        }
        value.extend_from_slice(WORDS[rng.usize(..WORDS.len())]);
    }
    value.trim_ascii().to_vec()
}

/// The header map with the peer's own header saved, as the early mutation does it: its lines are
/// joined, and an empty one is left out.
fn as_the_module_sees_it(lines: &[Line]) -> Vec<u8> {
    let own: Vec<&[u8]> = lines
        .iter()
        .filter(|line| line.name == PROTO && !line.value.is_empty())
        .map(|line| line.value.as_slice())
        .collect();
    let saved = (!own.is_empty()).then(|| ("x-laststream-forwarded-proto", own.join(&b',')));
    let others = lines
        .iter()
        .filter(|line| line.name != PROTO && line.name != "x-laststream-forwarded-proto");
    let all: Vec<(&str, Vec<u8>)> =
        others.map(|line| (line.name.as_str(), line.value.clone())).chain(saved).collect();
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
    let mut map = u32::try_from(all.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
    for (name, value) in &all {
        map.extend([length(name.as_bytes()), length(value)].concat());
    }
    for (name, value) in &all {
        map.extend([name.as_bytes(), b"\0", value, b"\0"].concat());
    }
    map
}

fn one<'w>(rng: &mut Rng, words: &[&'w str]) -> &'w str {
    words[rng.usize(..words.len())]
}

/// One to three of the values, each at most once.
fn some<T: Clone>(rng: &mut Rng, all: &[T]) -> Vec<T> {
    let mut some = all.to_vec();
    rng.shuffle(&mut some);
    some.truncate(rng.usize(1..=all.len().min(3)));
    some
}
