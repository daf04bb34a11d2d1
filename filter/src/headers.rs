//! The request headers in one piece, as the host hands them over: a count, the lengths of every
//! name and value, then the names and values, each followed by a zero byte. Or pairs of names and
//! values that are already parsed.
//!
//! One call for all headers costs hardly more than one call for one header, shows repeated headers
//! (a single get shows only the first value), and cannot fail on bytes that are not UTF-8.

/// A view of headers. Names are in lower case, as Envoy keeps them.
#[derive(Debug, Clone, Copy)]
pub struct Headers<'m>(Rest<'m>);

/// The headers that the iterator has not returned yet.
#[derive(Debug, Clone, Copy)]
enum Rest<'m> {
    Map { lengths: &'m [u8], texts: &'m [u8] },
    Pairs(&'m [(&'m [u8], &'m [u8])]),
}

impl<'m> Headers<'m> {
    /// A view of a serialised map. A damaged map is truncated at the damage, never read
    /// beyond its end.
    pub fn new(map: &'m [u8]) -> Self {
        let (count, rest) = take_u32(map).unwrap_or_default();
        // A map that ends within its lengths has no texts.
        let (lengths, texts) = (count as usize)
            .checked_mul(8)
            .and_then(|size| rest.split_at_checked(size))
            .unwrap_or_default();
        Self(Rest::Map { lengths, texts })
    }

    /// A view of these names and values.
    pub(crate) fn of_pairs(headers: &'m [(&'m [u8], &'m [u8])]) -> Self {
        Self(Rest::Pairs(headers))
    }

    /// Name and value of each header, in order.
    pub fn iter(self) -> Iter<'m> {
        Iter(self.0)
    }

    /// All values of a header.
    pub fn all<'n>(self, name: &'n str) -> impl Iterator<Item = &'m [u8]> + use<'m, 'n> {
        self.iter().filter(move |(other, _)| *other == name.as_bytes()).map(|(_, value)| value)
    }

    /// The first value of a header.
    pub fn first(self, name: &str) -> Option<&'m [u8]> {
        self.all(name).next()
    }

    /// Whether the content type is one of gRPC's.
    pub(crate) fn is_grpc(self) -> bool {
        self.first("content-type").is_some_and(|kind| begins_with(kind, "application/grpc"))
    }

    /// Whether the client accepts an event stream.
    pub(crate) fn accepts_event_stream(self) -> bool {
        let is_one = |kind: &[u8]| begins_with(kind.trim_ascii(), "text/event-stream");
        self.all("accept").any(|kinds| kinds.split(|&byte| byte == b',').any(is_one))
    }
}

/// Whether a text begins with `start`, in upper or lower case.
pub(crate) fn begins_with(text: &[u8], start: &str) -> bool {
    text.get(..start.len()).is_some_and(|text| text.eq_ignore_ascii_case(start.as_bytes()))
}

/// See [`Headers::iter`].
#[derive(Debug, Clone)]
pub struct Iter<'m>(Rest<'m>);

impl<'m> Iterator for Iter<'m> {
    type Item = (&'m [u8], &'m [u8]);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        match self.0 {
            Rest::Map { lengths, texts } => {
                let (name, lengths) = take_u32(lengths)?;
                let (value, lengths) = take_u32(lengths)?;
                let (name, texts) = take_text(texts, name)?;
                let (value, texts) = take_text(texts, value)?;
                self.0 = Rest::Map { lengths, texts };
                Some((name, value))
            }
            Rest::Pairs(headers) => {
                let (first, others) = headers.split_first()?;
                self.0 = Rest::Pairs(others);
                Some(*first)
            }
        }
    }
}

#[inline(always)] // called four times for each header of a request
fn take_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*number), rest))
}

/// Splits off a text and the zero byte after it.
#[inline(always)] // as above
fn take_text(bytes: &[u8], length: u32) -> Option<(&[u8], &[u8])> {
    let length = usize::try_from(length).ok()?;
    let text = bytes.get(..length)?;
    Some((text, bytes.get(length.checked_add(1)?..)?))
}

/// Serialises headers the way Envoy does.
pub fn serialise<N: AsRef<[u8]>, V: AsRef<[u8]>>(headers: &[(N, V)]) -> Vec<u8> {
    let length = |text: &[u8]| u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes();
    let mut map = u32::try_from(headers.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
    for (name, value) in headers {
        map.extend(length(name.as_ref()));
        map.extend(length(value.as_ref()));
    }
    for (name, value) in headers {
        for text in [name.as_ref(), value.as_ref()] {
            map.extend_from_slice(text);
            map.push(0);
        }
    }
    map
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Headers, serialise};

    #[wasm_bindgen_test(unsupported = test)]
    fn shows_repeated_empty_and_binary_values() {
        let map = serialise(&[("a", &b"1"[..]), ("b", b""), ("a", b"\xff\x00\xfe"), ("", b"x")]);
        let headers = Headers::new(&map);
        assert_eq!(headers.all("a").collect::<Vec<_>>(), [&b"1"[..], b"\xff\x00\xfe"]);
        assert_eq!(headers.first("b"), Some(&b""[..]));
        assert_eq!(headers.first("c"), None);
        assert_eq!(headers.iter().count(), 4);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_damaged_map_is_truncated() {
        let map = serialise(&[("name", &b"value"[..]), ("other", b"thing")]);
        let whole: Vec<_> = Headers::new(&map).iter().collect();
        for length in 0..map.len() {
            let cut: Vec<_> = Headers::new(&map[..length]).iter().collect();
            assert!(cut.len() < 2 && whole.starts_with(&cut), "{length}");
        }
        assert_eq!(Headers::new(&[0xff; 64]).iter().count(), 0);
    }
}
