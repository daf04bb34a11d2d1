//! The x-forwarded-proto policy as Envoy's native matchers around filters that write the header, if
//! they are equivalent to the module; otherwise the reason why not.

mod composite;
mod delegate;
mod matcher;
mod peers;
mod source_tests;

use laststream_filter::config;
use laststream_filter::config::wire::{Decision, Fallback, Ports};
use laststream_filter::forwarded::{self, FORWARDED_PROTO};
use serde_json::json;

pub(super) use self::matcher::cidrs;
use self::matcher::{Test, Write, all, any, not};
pub(super) use self::peers::ranges;
use self::source_tests::{SourceTests, source_tests};
use crate::placement::Listeners;
use laststream_base::yaml::Map;
use laststream_policy::ForwardedProto;

/// The filter of Envoy's that has the matchers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Matching {
    /// `match_delegate`, around one writer for each scheme.
    Delegate,
    /// The composite filter, which chooses the writer. Envoy 1.39 and newer.
    Composite,
}

/// Envoy's own configuration in place of the module's part.
#[derive(Debug)]
pub(super) struct Native {
    /// The header in which the peer's own is saved, if a source reads it.
    pub(super) saved_in: Option<String>,
    /// Whether the peer's own header is removed early, so that Envoy writes the connection's scheme
    /// whatever it trusts.
    pub(super) forgets: bool,
    pub(super) matching: Matching,
    /// The filters behind the module, in this order.
    pub(super) filters: Vec<Map>,
    /// Whether settings for destination ports take the place of the filters.
    pub(super) by_destination: bool,
}

/// Compiles the policy for these listeners, or returns the obstacles: the field, and why.
pub(super) fn compile(
    proto: &ForwardedProto,
    listeners: Listeners,
    matching: Matching,
    name: impl Fn(&str) -> String,
) -> Result<Native, Vec<String>> {
    let text = json!({ "forwarded_proto": proto.json }).to_string();
    let config = config::parse(text.as_bytes()).map_err(|refused| vec![refused.to_string()])?;
    let Some(policy) = config.forwarded_proto() else {
        return Err(vec!["there is nothing to restore".into()]);
    };
    if let Some(ports) = &proto.destination_ports {
        return by_destination(ports, listeners.own_port(), unwritten(policy));
    }
    let sources = testable_sources(policy, proto, listeners)?;
    let is_edge = matches!(listeners, Listeners::Edge(_));
    let stays_http = listeners == Listeners::Sidecar && is_http_otherwise(policy);
    let forgets = !stays_http && (is_edge || !keeps(policy));
    // In these cases it is http before any filter runs.
    let is_plaintext = is_edge || listeners == Listeners::Plaintext;
    let starts_as_http = stays_http || forgets && is_plaintext;
    let conditions = Conditions {
        policy,
        sources,
        trusted: peers::test(&proto.peers),
        saves: proto.saved_in.is_some(),
    };
    Ok(Native {
        saved_in: proto.saved_in.clone(),
        forgets,
        matching,
        filters: filters(matching, &conditions.writes(starts_as_http), name),
        by_destination: false,
    })
}

/// The scheme by the destination port of the PROXY protocol header, as Envoy's own
/// `forward_proto_config`. That trusts any peer, so it needs a filter chain for the trusted ones.
/// It looks at the port whenever the local address was replaced, also by the listener's own
/// address. `reasons`: other obstacles.
fn by_destination(
    ports: &Ports,
    own_port: Option<u16>,
    mut reasons: Vec<String>,
) -> Result<Native, Vec<String>> {
    if own_port.is_none() {
        reasons.push(
            "`nlb`: Envoy's forward_proto_config believes every peer, and only `placement.envoy` \
                has a filter chain for the trusted ones alone"
                .into(),
        );
    }
    if let Some(port) = own_port.filter(|port| ports.https.contains(port)) {
        reasons.push(format!(
            "`nlb`: the listener's own port {port} is in `ports.https`, and Envoy does not tell a \
                header with the listener's own address from none as the module does"
        ));
    }
    if !reasons.is_empty() {
        return Err(reasons);
    }
    Ok(Native {
        saved_in: None,
        forgets: true,
        matching: Matching::Delegate,
        filters: Vec::new(),
        by_destination: true,
    })
}

/// The tests of each source, or all obstacles.
fn testable_sources(
    policy: &forwarded::SchemePolicy,
    proto: &ForwardedProto,
    listeners: Listeners,
) -> Result<Vec<SourceTests>, Vec<String>> {
    let mut reasons = in_the_way(policy, proto, listeners);
    let mut sources = Vec::with_capacity(policy.sources.len());
    for source in &policy.sources {
        match source_tests(source, &policy.ports) {
            Ok(source) => sources.push(source),
            Err(reason) => reasons.push(format!("`{}` {reason}", source.header)),
        }
    }
    if reasons.is_empty() { Ok(sources) } else { Err(reasons) }
}

fn filters(matching: Matching, writes: &[Write], name: impl Fn(&str) -> String) -> Vec<Map> {
    match matching {
        Matching::Delegate => {
            let name_of = |write: &Write| name(&format!("scheme-{}", write.scheme));
            writes.iter().rev().map(|write| delegate::filter(&name_of(write), write)).collect()
        }
        Matching::Composite => vec![composite::filter(&name("scheme"), writes)],
    }
}

const ABOUT_HTTPS: &str = "https is written if this holds: the headers say https, and a trusted \
    peer sent them. Usual spellings are looked at first.";

/// The conditions on which the header is written.
struct Conditions<'p> {
    policy: &'p forwarded::SchemePolicy,
    sources: Vec<SourceTests>,
    trusted: Test,
    /// Whether the peer's own header is saved in a header that the route removes.
    saves: bool,
}

impl Conditions<'_> {
    /// At most one of the conditions holds for a request.
    fn writes(&self, starts_as_http: bool) -> Vec<Write> {
        let write = |scheme, test: Test, about| {
            let unless_same = (!starts_as_http).then(|| not(Test::exact(FORWARDED_PROTO, scheme)));
            Write { scheme, test: all(unless_same.into_iter().chain([test])), about }
        };
        let https = write("https", self.https(), ABOUT_HTTPS);
        let http = (!starts_as_http).then(|| write("http", self.http(), self.about_http()));
        [https].into_iter().chain(http).collect()
    }

    fn https(&self) -> Test {
        let first_pass = self.saves.then(|| not(Test::Redirected));
        all([self.https_test(first_pass), self.trusted.clone()])
    }

    /// The test that the sources as a whole say https. After a redirect the saved header is gone,
    /// so conditions that a silent source meets hold only on the first pass.
    fn https_test(&self, first_pass: Option<Test>) -> Test {
        let sources = &self.sources;
        if let [only] = &sources[..] {
            return only.https.test();
        }
        match self.policy.decision {
            Decision::Agree => {
                let usual = all(sources.iter().map(|source| source.https.usual.clone()));
                let none_against =
                    sources.iter().map(|source| any([source.https.test(), source.nothing.clone()]));
                let one_for = any(sources.iter().map(|source| source.https.test()));
                any([usual, all(none_against.chain([one_for]).chain(first_pass))])
            }
            Decision::First => any((0..sources.len()).filter_map(|index| {
                let (before, rest) = sources.split_at(index);
                let silent = before.iter().map(|source| source.nothing.clone());
                let first_pass = first_pass.clone().filter(|_| index > 0);
                Some(all(silent.chain([rest.first()?.https.test()]).chain(first_pass)))
            })),
        }
    }

    /// For a trusted peer, all values that are not clearly https. Missing headers count only if the
    /// policy has `silent: http`.
    fn http(&self) -> Test {
        let not_https = not(self.https_test(None));
        let is_not_silent = (self.policy.silent != Fallback::Http)
            .then(|| not(all(self.sources.iter().map(|source| source.nothing.clone()))));
        let condition = all([not_https].into_iter().chain(is_not_silent));
        let of_peer = match self.policy.fallback {
            Fallback::Http => any([not(self.trusted.clone()), condition]),
            Fallback::Connection | Fallback::Keep => all([condition, self.trusted.clone()]),
        };
        all([of_peer].into_iter().chain(self.saves.then(|| not(Test::Redirected))))
    }

    fn about_http(&self) -> &'static str {
        match self.policy.fallback {
            Fallback::Http => {
                "http is written if this holds: the peer is not trusted, or its headers do not \
                    clearly say https."
            }
            Fallback::Connection | Fallback::Keep => {
                "http is written if this holds: the headers of a trusted peer do not clearly say \
                    https."
            }
        }
    }
}

/// Whether the header is http unless a trusted peer says https, whatever the connection is.
fn is_http_otherwise(policy: &forwarded::SchemePolicy) -> bool {
    [policy.fallback, policy.silent].iter().all(|fallback| *fallback == Fallback::Http)
}

/// Whether the peer's own header may stay.
fn keeps(policy: &forwarded::SchemePolicy) -> bool {
    [policy.fallback, policy.silent].contains(&Fallback::Keep)
}

/// Settings that only the module supports.
fn in_the_way(
    policy: &forwarded::SchemePolicy,
    proto: &ForwardedProto,
    listeners: Listeners,
) -> Vec<String> {
    const MANY: usize = 1_000;
    let wants_both =
        keeps(policy) && [policy.fallback, policy.silent].contains(&Fallback::Connection);
    let reasons = [
        (
            !policy.trust.identities.is_empty(),
            "`trust.identities`: Envoy's matchers see all identities of a certificate as one text",
        ),
        (
            proto.peers.len() > MANY,
            "`trust.peers`: more than 1000 ranges, which would stand there twice",
        ),
        (
            wants_both && !matches!(listeners, Listeners::Edge(_)),
            "`fallback` and `silent`: `keep` and `connection` together, and matchers keep the \
                header of all peers or of none",
        ),
    ];
    texts_where(reasons).into_iter().chain(unwritten(policy)).collect()
}

/// The texts whose conditions are true.
fn texts_where<const N: usize>(texts: [(bool, &str); N]) -> Vec<String> {
    let texts = texts.into_iter().filter(|(is_true, _)| *is_true);
    texts.map(|(_, text)| text.to_owned()).collect()
}

/// Headers that Envoy's own configuration never writes or removes.
fn unwritten(policy: &forwarded::SchemePolicy) -> Vec<String> {
    texts_where([
        (
            policy.strip.untrusted || policy.strip.twins,
            "`strip`: matchers do not go through all headers",
        ),
        (policy.write_scheme, "`write_scheme`: no filter of Envoy's writes it on conditions"),
        (policy.write_port, "`write_port`: no filter of Envoy's writes it on conditions"),
    ])
}
