//! What a filter in front of the module tells of a request, in one value of filter state, so that the module needs only one read.

use super::known::{FORWARDED_PORT, FORWARDED_PROTO};
use super::{Policy, Source};
use crate::config::wire::Form;

/// The lines of the value: who the direct peer is, and then, if the filter tells headers, too, `x-forwarded-proto` as it is, the header
/// that holds it as the peer sent it, if that is another one, and `x-forwarded-port`; empty where there is none.
///
/// Nobody can forge it. Filter state is Envoy's own, no header can hold the end of a line, and the peer comes before any header.
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
        let headers = if let ([Some(now), Some(sent), Some(port)], true) = (headers, ends) { Some([now, sent, port]) } else { None };
        Self { peer, headers }
    }

    /// The headers, if they are told, and the policy needs no others.
    pub(crate) fn headers<'n>(&self, policy: &'n Policy) -> Option<Named<'n>>
    where
        't: 'n,
    {
        let [now, sent, port] = self.headers.filter(|_| policy.looks_only_at_told_headers())?;
        // Where the header itself is the original, it must not be there twice.
        let sent = if policy.original == FORWARDED_PROTO { (&b""[..], &b""[..]) } else { (policy.original.as_bytes(), sent) };
        Some([(FORWARDED_PROTO.as_bytes(), now), sent, (FORWARDED_PORT.as_bytes(), port)])
    }
}

/// Whether sources can be read from what is told. Other headers can come several times, of which a value shows only the first.
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
            assert_eq!(Told::new(value.as_bytes()), Told { peer: peer.as_bytes(), headers }, "{value:?}");
        }
    }
}
