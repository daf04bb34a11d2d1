//! What a filter in front of the module tells of a request, in one value of filter state, so that
//! the module needs only one read.

use super::known::{FORWARDED_PORT, FORWARDED_PROTO};
use super::{Policy, Source};
use crate::config::wire::Form;

/// The lines of the value: who the direct peer is, and then, if the filter tells headers, too,
/// `x-forwarded-proto` as it is, the header that holds it as the peer sent it, if that is another
/// one, and `x-forwarded-port`; empty where there is none.
///
/// Nobody can forge it. Filter state is Envoy's own, no header can hold the end of a line, and the
/// peer comes before any header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told<'t> {
    pub(crate) peer: &'t [u8],
    headers: Option<[&'t [u8]; 3]>,
}

/// Headers by name.
pub(crate) type Named<'n> = [(&'n [u8], &'n [u8]); 3];

impl<'t> Told<'t> {
    /// Too few lines, or too many, tell nothing of headers.
    pub(crate) fn new(value: &'t [u8]) -> Self {
        let mut lines = value.split(|byte| *byte == b'\n');
        let peer = lines.next().unwrap_or_default();
        let headers = [lines.next(), lines.next(), lines.next()];
        let ends = lines.all(<[u8]>::is_empty);
        let headers = if let ([Some(now), Some(sent), Some(port)], true) = (headers, ends) {
            Some([now, sent, port])
        } else {
            None
        };
        Self { peer, headers }
    }

    /// The headers, if they are told, and the policy needs no others.
    pub(crate) fn headers<'n>(&self, policy: &'n Policy) -> Option<Named<'n>>
    where
        't: 'n,
    {
        let [now, sent, port] = self.headers.filter(|_| policy.looks_only_at_told_headers())?;
        // Where the header itself is the original, it must not be there twice.
        let sent = if policy.original == FORWARDED_PROTO {
            (&b""[..], &b""[..])
        } else {
            (policy.original.as_bytes(), sent)
        };
        Some([(FORWARDED_PROTO.as_bytes(), now), sent, (FORWARDED_PORT.as_bytes(), port)])
    }
}

/// Whether sources can be read from what is told. Other headers can come several times, of which a
/// value shows only the first.
pub(super) fn tells(sources: &[Source], original: &str) -> bool {
    sources.iter().all(|source| {
        let is_told = source.header == original || source.header == FORWARDED_PORT;
        is_told && matches!(source.form, Form::Scheme | Form::Port | Form::Flag)
    })
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::Told;

    #[wasm_bindgen_test(unsupported = test)]
    fn headers_are_told_by_all_of_their_lines_or_not_at_all() {
        for (value, peer, headers) in [
            ("", "", None),
            ("10.0.0.1", "10.0.0.1", None),
            ("10.0.0.1\n", "10.0.0.1", None),
            ("10.0.0.1\nhttp\nhttps", "10.0.0.1", None),
            ("10.0.0.1\nhttp\nhttps\n443", "10.0.0.1", Some(["http", "https", "443"])),
            ("10.0.0.1\nhttp\nhttps\n443\n", "10.0.0.1", Some(["http", "https", "443"])),
            ("10.0.0.1\n\n\n", "10.0.0.1", Some(["", "", ""])),
            ("::1\nhttp\na, b\n443\nx", "::1", None),
        ] {
            let headers = headers.map(|headers| headers.map(str::as_bytes));
            assert_eq!(
                Told::new(value.as_bytes()),
                Told { peer: peer.as_bytes(), headers },
                "{value:?}"
            );
        }
    }

    #[cfg(not(target_arch = "wasm32"))]
    mod against_all_headers {
        use proptest::prelude::*;
        use proptest::sample::select;

        use super::super::{FORWARDED_PORT, FORWARDED_PROTO, Policy, Told};
        use crate::config;
        use crate::forwarded::{Edit, Finding, Scheme, Verdict};
        use crate::headers::{Headers, serialise};

        /// What is found, what becomes of the request, and what is written.
        type Outcome = (Finding, Verdict, Vec<(Vec<u8>, Vec<u8>)>);

        fn outcome(
            policy: &Policy,
            headers: Headers<'_>,
            [trusted, redirected]: [bool; 2],
        ) -> Outcome {
            let finding =
                if trusted { policy.find(headers, || redirected) } else { Finding::Untrusted };
            let mut written = Vec::new();
            let verdict =
                policy.edit(finding, policy.target(finding, || Scheme::Http), headers, |edit| {
                    match edit {
                        Edit::Set(name, value) => {
                            written.push((name.as_bytes().to_vec(), value.to_vec()))
                        }
                        Edit::Remove(name) => written.push((name.to_vec(), Vec::new())),
                    }
                });
            (finding, verdict, written)
        }

        const ORIGINALS: [&str; 3] = ["x-laststream-forwarded-proto", "x-saved", FORWARDED_PROTO];

        fn any_policy() -> impl Strategy<Value = String> {
            let original = select(&ORIGINALS[..]);
            let element = select(&["first", "last", "agree"][..]);
            let readers = select(
                &[
                    r#""presets": ["gcp"]"#,
                    r#""presets": ["aws_alb"]"#,
                    r#""sources": [{"header": "x-forwarded-port", "element": "?"}]"#,
                ][..],
            );
            let decision = select(&["agree", "first"][..]);
            (original, readers, element, decision, any::<(bool, bool)>()).prop_map(|(original, readers, element, decision, (keep, port))| {
                let fallback = if keep && original != FORWARDED_PROTO { "keep" } else { "connection" };
                format!(
                    r#"{{"forwarded_proto": {{"trust": {{"peers": ["::1"]}}, "original_header": "{original}", {}, "decision": "{decision}",
                    "fallback": "{fallback}", "write_port": {port}}}}}"#,
                    readers.replace('?', element)
                )
            })
        }

        fn any_value() -> impl Strategy<Value = Option<&'static [u8]>> {
            select(
                &[
                    None,
                    Some(""),
                    Some("http"),
                    Some("https"),
                    Some("Https,http"),
                    Some(" , "),
                    Some("wss"),
                    Some("443"),
                    Some("80"),
                    Some("8443"),
                    Some("-"),
                    Some("443, 80"),
                ][..],
            )
            .prop_map(|value| value.map(str::as_bytes))
        }

        proptest! {
            #[test]
            fn comes_to_the_same(text in any_policy(), now in any_value(), saved in any_value(), port in any_value(), peer: [bool; 2]) {
                let config = config::parse(text.as_bytes()).map_err(|refused| TestCaseError::fail(refused.to_string()))?;
                let policy = config.forwarded_proto.expect("a policy");
                let sent = if policy.original == FORWARDED_PROTO { now } else { saved };
                let all = [(FORWARDED_PROTO, now), (policy.original.as_str(), saved.filter(|_| policy.original != FORWARDED_PROTO)), (FORWARDED_PORT, port)];
                let there: Vec<_> = all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
                let map = serialise(&there);
                let value = [&b"::1"[..], now.unwrap_or_default(), sent.unwrap_or_default(), port.unwrap_or_default()].join(&b'\n');
                let named = Told::new(&value).headers(&policy).expect("headers are told, and \
                    enough");
                prop_assert_eq!(outcome(&policy, Headers::named(&named), peer), outcome(&policy, Headers::new(&map), peer), "{}", text);
            }
        }
    }
}
