//! Conditions, and how Envoy's generic matchers spell them.

use std::net::IpAddr;

use crate::parts::typed;
use laststream_base::yaml::{List, Map};

const HEADER_INPUT: &str = "type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput";
const PEER_INPUT: &str =
    "type.googleapis.com/envoy.extensions.matching.common_inputs.network.v3.DirectSourceIPInput";
const FILTER_STATE_INPUT: &str =
    "type.googleapis.com/envoy.extensions.matching.common_inputs.network.v3.FilterStateInput";
const RANGES: &str = "type.googleapis.com/envoy.extensions.matching.input_matchers.ip.v3.Ip";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Test {
    /// The header's lines, with commas between them, match this. A missing header matches no text.
    Header(String, Text),
    /// The direct peer's address, as a text, matches this.
    PeerText(Text),
    /// The direct peer's address is in one of these.
    PeerIn(Vec<(IpAddr, u8)>),
    /// Envoy has followed a redirect itself. The router counts redirects in filter state, which no
    /// client can write.
    Redirected,
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
}

/// A value of the header, and the condition on which it is written.
pub(super) struct Write {
    pub(super) scheme: &'static str,
    pub(super) test: Test,
    /// The comment on the condition.
    pub(super) about: &'static str,
}

/// Ranges as Envoy's `CidrRange`.
pub(crate) fn cidrs(ranges: &[(IpAddr, u8)]) -> List {
    let range = |(address, length): &(IpAddr, u8)| {
        Map::of("address_prefix", address.to_string()).with("prefix_len", u16::from(*length))
    };
    ranges.iter().map(range).collect()
}

/// The text or pattern of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Text {
    Exact(String),
    Prefix(String),
    /// A pattern for the whole text, in RE2's syntax.
    Regex(String),
}

impl Test {
    pub(super) fn exact(header: &str, value: &str) -> Self {
        Self::Header(header.into(), Text::Exact(value.into()))
    }

    pub(super) fn regex(header: &str, pattern: impl Into<String>) -> Self {
        Self::Header(header.into(), Text::Regex(pattern.into()))
    }

    pub(super) fn predicate(&self) -> Map {
        match self {
            Self::Header(name, text) => {
                let input = Map::of("@type", HEADER_INPUT).with("header_name", name.as_str());
                single("header", input, "value_match", text.matcher())
            }
            Self::PeerText(text) => {
                single("peer", Map::of("@type", PEER_INPUT), "value_match", text.matcher())
            }
            Self::PeerIn(ranges) => {
                let config = Map::of("@type", RANGES)
                    .with("cidr_ranges", cidrs(ranges))
                    .with("stat_prefix", "laststream");
                let matcher = typed("ranges", config);
                single("peer", Map::of("@type", PEER_INPUT), "custom_match", matcher)
            }
            Self::Redirected => {
                let input =
                    Map::of("@type", FILTER_STATE_INPUT).with("key", "num_internal_redirects");
                single("redirects", input, "value_match", Text::Regex(".+".into()).matcher())
            }
            Self::All(tests) => Map::of("and_matcher", several(tests)),
            Self::Any(tests) => Map::of("or_matcher", several(tests)),
            Self::Not(test) => Map::of("not_matcher", test.predicate()),
        }
    }
}

impl Text {
    fn matcher(&self) -> Map {
        match self {
            Self::Exact(text) => Map::of("exact", text.as_str()),
            Self::Prefix(text) => Map::of("prefix", text.as_str()),
            Self::Regex(text) => Map::of(
                "safe_regex",
                Map::of("google_re2", Map::new()).with("regex", text.as_str()),
            ),
        }
    }
}

fn single(name: &str, input: Map, kind: &str, matcher: Map) -> Map {
    let input = typed(name, input);
    Map::of("single_predicate", Map::of("input", input).with(kind, matcher))
}

fn several(tests: &[Test]) -> Map {
    Map::of("predicate", tests.iter().map(Test::predicate).collect::<List>())
}

/// All of these tests; there is at least one.
pub(super) fn all(tests: impl IntoIterator<Item = Test>) -> Test {
    let flat = tests.into_iter().flat_map(|test| match test {
        Test::All(inner) => inner,
        other => vec![other],
    });
    joined(flat.collect(), Test::All)
}

/// One of these tests or more; there is at least one.
pub(super) fn any(tests: impl IntoIterator<Item = Test>) -> Test {
    let flat = tests.into_iter().flat_map(|test| match test {
        Test::Any(inner) => inner,
        other => vec![other],
    });
    joined(flat.collect(), Test::Any)
}

pub(super) fn not(test: Test) -> Test {
    Test::Not(Box::new(test))
}

/// Joins the tests. Envoy requires at least two in such a matcher, so a single one is returned as
/// it is.
fn joined(mut tests: Vec<Test>, join: impl FnOnce(Vec<Test>) -> Test) -> Test {
    match (tests.pop(), tests.is_empty()) {
        (Some(only), true) => only,
        (last, _) => {
            tests.extend(last);
            join(tests)
        }
    }
}
