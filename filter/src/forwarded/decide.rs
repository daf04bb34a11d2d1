//! The decision on a scheme, from the values of the sources.

use super::known::FORWARDED_PROTO;
use super::policy::SchemePolicy;
use super::scheme::Scheme;
use super::source::{Says, agreed};
use crate::config::wire::{Decision, Fallback};
use crate::headers::Headers;

/// The result for a request; each has a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Trusted, and `x-forwarded-proto` had another value.
    Overridden,
    /// Trusted, and `x-forwarded-proto` was already right.
    Kept,
    /// Trusted, but its headers contradict each other or make no sense.
    Conflicting,
    /// Trusted, but it sent none of the headers.
    Silent,
    /// Not trusted.
    Untrusted,
}

impl Verdict {
    /// All of them, in the order of their metrics.
    pub const ALL: [Self; 5] =
        [Self::Overridden, Self::Kept, Self::Conflicting, Self::Silent, Self::Untrusted];

    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overridden => "overridden",
            Self::Kept => "kept",
            Self::Conflicting => "conflicting",
            Self::Silent => "silent",
            Self::Untrusted => "untrusted",
        }
    }
}

/// The scheme of a request, by its headers or its destination port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    /// A trusted peer names this scheme.
    Known(Scheme),
    /// A trusted peer names no scheme.
    Silent,
    /// A trusted peer contradicts itself.
    Conflicting,
    /// The peer is not trusted.
    Untrusted,
}

impl SchemePolicy {
    /// Reads a trusted peer's headers. If Envoy has followed a redirect itself, the request was
    /// decided in its first pass, and the route of that pass has removed the saved header.
    /// `is_redirected` is called only if the saved header names no scheme.
    pub(crate) fn find(
        &self,
        headers: Headers<'_>,
        is_redirected: impl FnOnce() -> bool,
    ) -> Finding {
        let mut may_be_redirected = false;
        let mut claims = self.sources.iter().map(|source| {
            let says = source.read(headers, &self.ports);
            may_be_redirected |= says == Says::Nothing
                && source.header == self.original
                && self.original != FORWARDED_PROTO;
            says
        });
        let claim = match self.decision {
            Decision::Agree => claims.fold(Says::Nothing, agreed),
            Decision::First => claims.find(|says| *says != Says::Nothing).unwrap_or(Says::Nothing),
        };
        if may_be_redirected
            && let Some(scheme) = decided_before(headers)
            && is_redirected()
        {
            return Finding::Known(scheme);
        }
        match claim {
            Says::Scheme(scheme) => Finding::Known(scheme),
            Says::Nothing => Finding::Silent,
            Says::Unclear => Finding::Conflicting,
        }
    }

    /// Maps the destination port in the PROXY protocol header of a trusted peer to a scheme; the
    /// port is none without such a header.
    pub(crate) fn find_by_port(&self, port: Option<u16>) -> Finding {
        port.and_then(|port| self.ports.scheme(port)).map_or(Finding::Silent, Finding::Known)
    }

    /// The new `x-forwarded-proto` of a request; `None` leaves it. For tests that compare it with
    /// Envoy's native matchers.
    pub fn decide(
        &self,
        headers: Headers<'_>,
        trusted: bool,
        connection: Scheme,
    ) -> Option<Scheme> {
        let finding = if trusted { self.find(headers, || false) } else { Finding::Untrusted };
        self.target(finding, || connection)
    }

    /// The scheme for `x-forwarded-proto`; `None` leaves it. `connection` is called only if it is
    /// needed.
    pub(crate) fn target(
        &self,
        finding: Finding,
        connection: impl FnOnce() -> Scheme,
    ) -> Option<Scheme> {
        let fallback = match finding {
            Finding::Known(scheme) => return Some(scheme),
            Finding::Conflicting => return Some(Scheme::Http),
            Finding::Silent => self.silent,
            Finding::Untrusted => self.fallback,
        };
        match fallback {
            Fallback::Http => Some(Scheme::Http),
            Fallback::Connection => Some(connection()),
            Fallback::Keep => None,
        }
    }

    /// Whether the headers of an untrusted request need not be read.
    pub(crate) fn ignores_untrusted(&self) -> bool {
        self.fallback == Fallback::Keep
            && !self.write_scheme
            && !self.write_port
            && !self.strip.untrusted
            && !self.strip.twins
    }
}

/// The scheme that the first pass has written.
fn decided_before(headers: Headers<'_>) -> Option<Scheme> {
    let is = |scheme: &Scheme| headers.first(FORWARDED_PROTO) == Some(scheme.name().as_bytes());
    [Scheme::Http, Scheme::Https].into_iter().find(is)
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Finding, SchemePolicy};
    use crate::config;
    use crate::forwarded::Scheme;
    use crate::headers::{Headers, serialise};

    const SAVED: &str = "x-laststream-forwarded-proto";

    fn policy(inside: &str) -> SchemePolicy {
        let text = format!(r#"{{"forwarded_proto": {{"trust": {{"peers": ["::1"]}}, {inside}}}}}"#);
        config::parse(text.as_bytes()).expect(inside).forwarded_proto.expect(inside)
    }

    fn find(policy: &SchemePolicy, headers: &[(&str, &str)], is_redirected: bool) -> Finding {
        policy.find(Headers::new(&serialise(headers)), || is_redirected)
    }

    /// The route of the first pass has removed the saved header, and nothing else.
    #[wasm_bindgen_test(unsupported = test)]
    fn a_redirected_request_keeps_its_first_decision() {
        for (inside, decided, port) in [
            (r#""presets": ["gcp"]"#, Scheme::Https, "443"),
            (r#""presets": ["gcp"]"#, Scheme::Http, "80"),
            (r#""presets": ["aws_alb"]"#, Scheme::Http, "443"),
            (r#""presets": ["aws_alb"], "decision": "first""#, Scheme::Http, "443"),
        ] {
            let headers = [("x-forwarded-proto", decided.name()), ("x-forwarded-port", port)];
            assert_eq!(find(&policy(inside), &headers, true), Finding::Known(decided), "{inside}");
        }
        let own = policy(r#""presets": ["gcp"], "original_header": "x-forwarded-proto""#);
        assert_eq!(
            find(&own, &[("x-forwarded-proto", "")], true),
            Finding::Silent,
            "there is no saved header that could be missing"
        );
    }

    /// The host is asked only if the saved header names no scheme, which a correct load balancer
    /// never causes.
    #[wasm_bindgen_test(unsupported = test)]
    fn a_request_with_a_saved_header_is_not_a_redirect() {
        let policy = policy(r#""presets": ["gcp"]"#);
        for (saved, expected) in
            [("http", Finding::Known(Scheme::Http)), ("ftp", Finding::Conflicting)]
        {
            let map = serialise(&[("x-forwarded-proto", "https"), (SAVED, saved)]);
            assert_eq!(
                policy.find(Headers::new(&map), || panic!("the host was asked")),
                expected,
                "{saved}"
            );
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn an_unclear_value_is_http_even_over_tls() {
        const HTTP: Option<Scheme> = Some(Scheme::Http);
        const HTTPS: Option<Scheme> = Some(Scheme::Https);
        for (inside, silent, untrusted) in [
            ("", HTTP, HTTPS),
            (r#", "fallback": "http""#, HTTP, HTTP),
            (r#", "silent": "connection""#, HTTPS, HTTPS),
            (r#", "silent": "keep", "fallback": "keep""#, None, None),
            (r#", "fallback": "keep""#, HTTP, None),
        ] {
            let policy = policy(&format!(r#""presets": ["gcp"]{inside}"#));
            for odd in ["http, https", "ftp", "https;", "-"] {
                let finding = find(&policy, &[("x-forwarded-proto", "https"), (SAVED, odd)], false);
                assert_eq!(policy.target(finding, || Scheme::Https), HTTP, "{inside} {odd}");
            }
            assert_eq!(policy.target(Finding::Silent, || Scheme::Https), silent, "{inside}");
            assert_eq!(policy.target(Finding::Untrusted, || Scheme::Https), untrusted, "{inside}");
        }
    }
}
