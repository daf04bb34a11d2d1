//! The peer information, which the filter in front writes as one value of filter state, so that the
//! module needs only one read.

use core::net::SocketAddr;

use super::known::{FORWARDED_PORT, FORWARDED_PROTO};
use super::policy::SchemePolicy;
use super::source::Source;
use crate::config::wire::Form;

/// The lines of the value. The first is the address of the direct peer; for `nlb` the local address
/// and the direct local address follow after blanks. If the filter in front also writes headers,
/// three more lines follow: `x-forwarded-proto` as it is now, the saved header, and
/// `x-forwarded-port`. A line is empty if there is no such header.
///
/// No client can forge it: filter state belongs to Envoy, no header can contain the end of a line,
/// and the addresses come before any header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeerInfo<'t> {
    pub(crate) peer: &'t [u8],
    /// The local address, which a PROXY protocol header replaces, and the socket's own.
    addresses: Option<[&'t [u8]; 2]>,
    headers: Option<[&'t [u8]; 3]>,
}

/// Splits a line into the peer and two addresses. Any other line is returned whole as the peer;
/// with blanks in it, it is not an address, and so not trusted.
fn addresses(line: &[u8]) -> (&[u8], Option<[&[u8]; 2]>) {
    let mut words = line.split(|byte| *byte == b' ');
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some(peer), Some(local), Some(direct), None) => (peer, Some([local, direct])),
        _ => (line, None),
    }
}

/// An address and its port as Envoy writes them; IPv4 within IPv6 is IPv4.
fn socket_address(text: &[u8]) -> Option<SocketAddr> {
    let address: SocketAddr = core::str::from_utf8(text).ok()?.parse().ok()?;
    Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
}

/// Names and values of headers.
pub(crate) type HeaderPairs<'n> = [(&'n [u8], &'n [u8]); 3];

impl<'t> PeerInfo<'t> {
    /// A value with too few or too many lines has no headers. Only `nlb` has addresses beside the
    /// peer; for others the first line is the peer as it is, because looking for blanks in it costs
    /// every request.
    pub(crate) fn parse(value: &'t [u8], with_addresses: bool) -> Self {
        let mut lines = value.split(|byte| *byte == b'\n');
        let first = lines.next().unwrap_or_default();
        let (peer, addresses) = if with_addresses { addresses(first) } else { (first, None) };
        let headers = [lines.next(), lines.next(), lines.next()];
        let is_at_end = lines.all(<[u8]>::is_empty);
        let headers = if let ([Some(current), Some(saved), Some(port)], true) = (headers, is_at_end)
        {
            Some([current, saved, port])
        } else {
            None
        };
        Self { peer, addresses, headers }
    }

    /// Whether a connection's peer is known, but not its addresses.
    pub(crate) fn lacks_addresses(&self) -> bool {
        self.addresses.is_none() && !self.peer.is_empty()
    }

    /// The port that the client connected to, from the PROXY protocol header of the connection. If
    /// the local address is the socket's own, no header has replaced it, and the listener's port
    /// tells nothing about the client.
    pub(crate) fn destination_port(&self) -> Option<u16> {
        let [local, direct] = self.addresses?.map(socket_address);
        let (local, direct) = (local?, direct?);
        (local != direct).then_some(local.port())
    }

    /// The headers, if the value has them and the policy needs no others.
    pub(crate) fn headers<'n>(&self, policy: &'n SchemePolicy) -> Option<HeaderPairs<'n>>
    where
        't: 'n,
    {
        let [current, saved, port] = self.headers.filter(|_| policy.looks_only_at_peer_info())?;
        // If the saved header is `x-forwarded-proto` itself, it must not be there twice.
        let saved = if policy.original == FORWARDED_PROTO {
            (&b""[..], &b""[..])
        } else {
            (policy.original.as_bytes(), saved)
        };
        Some([(FORWARDED_PROTO.as_bytes(), current), saved, (FORWARDED_PORT.as_bytes(), port)])
    }
}

impl SchemePolicy {
    /// Whether [`PeerInfo`] can hold all headers that the policy looks at.
    pub fn looks_only_at_peer_info(&self) -> bool {
        covered_by_peer_info(&self.sources, &self.original)
            && !self.write_scheme
            && !self.strip.untrusted
            && !self.strip.twins
    }
}

/// Whether all sources are in [`PeerInfo`]. Other headers can occur several times, and the filter
/// in front writes only the first line.
fn covered_by_peer_info(sources: &[Source], original: &str) -> bool {
    sources.iter().all(|source| {
        let is_covered = source.header == original || source.header == FORWARDED_PORT;
        is_covered && matches!(source.form, Form::Scheme | Form::Port | Form::Flag)
    })
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::PeerInfo;

    #[wasm_bindgen_test(unsupported = test)]
    fn headers_need_all_of_their_lines() {
        for (value, peer, headers) in [
            ("", "", None),
            ("10.0.0.1 ::1", "10.0.0.1 ::1", None),
            ("10.0.0.1", "10.0.0.1", None),
            ("10.0.0.1\n", "10.0.0.1", None),
            ("10.0.0.1\nhttp\nhttps", "10.0.0.1", None),
            ("10.0.0.1\nhttp\nhttps\n443", "10.0.0.1", Some(["http", "https", "443"])),
            ("10.0.0.1\nhttp\nhttps\n443\n", "10.0.0.1", Some(["http", "https", "443"])),
            ("10.0.0.1\n\n\n", "10.0.0.1", Some(["", "", ""])),
            ("::1\nhttp\na, b\n443\nx", "::1", None),
        ] {
            let headers = headers.map(|headers| headers.map(str::as_bytes));
            for with_addresses in [false, true] {
                assert_eq!(
                    PeerInfo::parse(value.as_bytes(), with_addresses),
                    PeerInfo { peer: peer.as_bytes(), addresses: None, headers },
                    "{value:?}"
                );
            }
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn only_a_policy_by_ports_splits_the_first_line() {
        let value = b"10.0.0.1 192.0.2.1:443 127.0.0.1:8443";
        assert_eq!(PeerInfo::parse(value, true).peer, b"10.0.0.1");
        assert_eq!(PeerInfo::parse(value, false).peer, value, "it is no address, so not trusted");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn only_a_replaced_local_address_has_a_destination() {
        for (addresses, port) in [
            ("192.0.2.1:443 127.0.0.1:8443", Some(443)),
            ("[2001:db8::1]:443 [::1]:8443", Some(443)),
            ("[fe80::1%2]:443 [::1]:8443", Some(443)),
            ("127.0.0.1:443 127.0.0.1:8443", Some(443)),
            ("192.0.2.1:0 127.0.0.1:8443", Some(0)),
            ("192.0.2.1:65535 127.0.0.1:8443", Some(65535)),
            ("127.0.0.1:443 127.0.0.1:443", None),
            ("[::ffff:127.0.0.1]:443 127.0.0.1:443", None),
            ("[::1]:443 [0:0:0:0:0:0:0:1]:443", None),
            ("192.0.2.1:443 -", None),
            ("- 127.0.0.1:8443", None),
            ("192.0.2.1 127.0.0.1:8443", None),
            ("192.0.2.1:70000 127.0.0.1:8443", None),
            ("/run/envoy.sock 127.0.0.1:8443", None),
            ("envoy://internal/443 127.0.0.1:8443", None),
            ("192.0.2.1:443  127.0.0.1:8443", None),
            ("192.0.2.1:443 127.0.0.1:8443 ", None),
            ("", None),
        ] {
            for headers in ["", "\nhttp\n\n443"] {
                let value = format!("10.0.0.1 {addresses}{headers}");
                let info = PeerInfo::parse(value.as_bytes(), true);
                assert_eq!(info.destination_port(), port, "{value:?}");
            }
        }
    }

    #[cfg(not(target_arch = "wasm32"))]
    mod against_all_headers {
        use proptest::prelude::*;
        use proptest::sample::select;

        use super::super::{FORWARDED_PORT, FORWARDED_PROTO, PeerInfo, SchemePolicy};
        use crate::config;
        use crate::forwarded::{Edit, Finding, Scheme, Verdict};
        use crate::headers::{Headers, serialise};

        /// The finding, the verdict, and the edits.
        type Outcome = (Finding, Verdict, Vec<(Vec<u8>, Vec<u8>)>);

        fn outcome(
            policy: &SchemePolicy,
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
            let flags = any::<(bool, bool)>();
            (original, readers, element, decision, flags).prop_map(
                |(original, readers, element, decision, (keep, port))| {
                    let keeps = keep && original != FORWARDED_PROTO;
                    let fallback = if keeps { "keep" } else { "connection" };
                    let readers = readers.replace('?', element);
                    format!(
                        r#"{{"forwarded_proto": {{
                            "trust": {{"peers": ["::1"]}}, "original_header": "{original}",
                            {readers}, "decision": "{decision}", "fallback": "{fallback}",
                            "write_port": {port}
                        }}}}"#
                    )
                },
            )
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
            fn peer_info_and_all_headers_give_the_same_outcome(
                text in any_policy(),
                current in any_value(),
                saved in any_value(),
                port in any_value(),
                peer: [bool; 2],
            ) {
                let config = config::parse(text.as_bytes())
                    .map_err(|refused| TestCaseError::fail(refused.to_string()))?;
                let policy = config.forwarded_proto.expect("a policy");
                let is_separate = policy.original != FORWARDED_PROTO;
                let all = [
                    (FORWARDED_PROTO, current),
                    (policy.original.as_str(), saved.filter(|_| is_separate)),
                    (FORWARDED_PORT, port),
                ];
                let present: Vec<_> =
                    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
                let map = serialise(&present);
                let lines = [current, if is_separate { saved } else { current }, port]
                    .map(Option::unwrap_or_default);
                let value = [b"::1", lines[0], lines[1], lines[2]].join(&b'\n');
                let pairs = PeerInfo::parse(&value, false).headers(&policy).expect("all headers");
                prop_assert_eq!(
                    outcome(&policy, Headers::of_pairs(&pairs), peer),
                    outcome(&policy, Headers::new(&map), peer),
                    "{}",
                    text
                );
            }
        }
    }
}
