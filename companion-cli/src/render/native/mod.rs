//! The x-forwarded-proto policy in Envoy's own words: matchers around a filter that writes the header, where they come to the same as
//! the module does. Where they do not, the reasons why.
//!
//! The filter is Envoy's IP tagging: of those that every supported Envoy has, it alone both writes a header of one's choice and makes
//! Envoy choose the route again. Header mutation does not, so redirects and routes would go by the old value.

mod matcher;
mod peers;
mod words;

use laststream_filter::config;
use laststream_filter::config::wire::{Decision, Fallback};
use laststream_filter::forwarded::{self, FORWARDED_PROTO};
use serde_json::json;

use self::matcher::{Test, all, any, not};
use self::words::{Said, said};
use crate::policy::ForwardedProto;
use crate::yaml::{List, Map};

/// Which connections the filters must be right for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listeners {
    /// Without TLS, and Envoy overwrites the header: it is http before any filter runs.
    Edge,
    /// Without TLS: what Envoy has not overwritten is http, once it is removed.
    Plaintext,
    /// Any.
    Any,
}

/// What does the module's part.
#[derive(Debug)]
pub(super) struct Native {
    /// Where the peer's own header must be saved, if it is read.
    pub(super) saved_in: Option<String>,
    /// The peer's own header goes, so that Envoy writes the connection's scheme whatever it trusts.
    pub(super) forgets: bool,
    /// Behind the module, in this order.
    pub(super) filters: Vec<Map>,
}

/// Restores the scheme there, or says what is in the way: the field, and why.
pub(super) fn compile(proto: &ForwardedProto, listeners: Listeners, name: impl Fn(&str) -> String) -> Result<Native, Vec<String>> {
    let text = json!({ "forwarded_proto": proto.json }).to_string();
    let parsed = config::parse(text.as_bytes()).map_err(|refused| vec![refused.to_string()])?;
    let Some(policy) = parsed.forwarded_proto() else { return Err(vec!["there is nothing to restore".into()]) };
    let mut reasons = in_the_way(policy, proto);
    let mut sources = Vec::with_capacity(policy.sources.len());
    for source in &policy.sources {
        match said(source, &policy.ports) {
            Ok(said) => sources.push(said),
            Err(reason) => reasons.push(format!("`{}` {reason}", source.header)),
        }
    }
    if !reasons.is_empty() {
        return Err(reasons);
    }
    // What is kept may be anything.
    let kept = policy.fallback == Fallback::Keep && listeners == Listeners::Plaintext;
    let listeners = if kept { Listeners::Any } else { listeners };
    let trusted = peers::test(&proto.peers);
    let writes = |scheme: &str, says: Test| {
        let already = (listeners == Listeners::Any).then(|| not(Test::exact(FORWARDED_PROTO, scheme)));
        let test = all(already.into_iter().chain([says, trusted.clone()]));
        let note = format!(
            "The filter is skipped unless this holds: the headers say {scheme}, and a trusted peer sent them. Usual spellings are looked at first."
        );
        matcher::only_if(&name(&format!("scheme-{scheme}")), &test, &note, writer(scheme))
    };
    let http = (listeners == Listeners::Any).then(|| writes("http", agreed(policy.decision, &sources, |said| &said.http)));
    let https = writes("https", agreed(policy.decision, &sources, |said| &said.https));
    let saved_in = proto.saved_in.clone();
    let forgets = policy.fallback == Fallback::Connection && listeners != Listeners::Edge;
    Ok(Native { saved_in, forgets, filters: http.into_iter().chain([https]).collect() })
}

/// What only the module can do.
fn in_the_way(policy: &forwarded::Policy, proto: &ForwardedProto) -> Vec<String> {
    const MANY: usize = 1_000;
    let saves_nothing = proto.saved_in.is_none() && policy.sources.iter().any(|source| source.header == FORWARDED_PROTO);
    let reasons = [
        (!policy.trust.identities.is_empty(), "`trust.identities`: Envoy's matchers see all identities of a certificate as one text"),
        (proto.peers.len() > MANY, "`trust.peers`: more than 1000 ranges, which would stand there twice"),
        (saves_nothing, "`original_header: x-forwarded-proto`: the header must be saved before Envoy writes its own"),
        (policy.strip.untrusted || policy.strip.twins, "`strip`: matchers do not go through all headers"),
        (policy.write_scheme, "`write_scheme`: no filter of Envoy's writes it on conditions"),
        (policy.write_port, "`write_port`: no filter of Envoy's writes it on conditions"),
    ];
    reasons.into_iter().filter(|(is_so, _)| *is_so).map(|(_, reason)| reason.to_owned()).collect()
}

/// That the sources as a whole say this.
fn agreed(decision: Decision, sources: &[Said], this: impl Fn(&Said) -> &words::Saying) -> Test {
    if let [only] = sources {
        return this(only).test();
    }
    match decision {
        Decision::Agree => {
            let usual = all(sources.iter().map(|said| this(said).usual.clone()));
            let none_against = sources.iter().map(|said| any([this(said).test(), said.nothing.clone()]));
            let one_for = any(sources.iter().map(|said| this(said).test()));
            any([usual, all(none_against.chain([one_for]))])
        }
        Decision::First => any((0..sources.len()).filter_map(|index| {
            let (before, rest) = sources.split_at(index);
            let silent = before.iter().map(|said| said.nothing.clone());
            Some(all(silent.chain([this(rest.first()?).test()])))
        })),
    }
}

/// Writes the header, whoever the client is.
fn writer(scheme: &str) -> Map {
    let everybody = ["0.0.0.0", "::"].into_iter().map(|address| Map::new().with("address_prefix", address).with("prefix_len", 0_u16));
    let tag = Map::new().with("ip_tag_name", scheme).with("ip_list", everybody.collect::<List>());
    Map::new().with("name", "envoy.filters.http.ip_tagging").with(
        "typed_config",
        Map::new()
            .with("@type", "type.googleapis.com/envoy.extensions.filters.http.ip_tagging.v3.IPTagging")
            .with("request_type", "BOTH")
            .note("Every address has this tag, and the tag becomes the header: no other filter both writes one and has the route chosen again.")
            .with("ip_tags", List::new().item(tag))
            .with("ip_tag_header", Map::new().with("header", FORWARDED_PROTO).with("action", "SANITIZE")),
    )
}
