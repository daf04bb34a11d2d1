//! The parser of RFC 7239 agrees with a naive one, which splits the header instead of walking
//! through it.
#![no_main]

use laststream_filter::forwarded::forwarded_protos;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|header: &[u8]| {
    assert_eq!(forwarded_protos(header).ok(), naive(header));
    // A line after a valid one adds its elements, and removes none.
    let line_end = header.iter().position(|&byte| byte == b'\n');
    if let Some((one, other)) = line_end.map(|end| (&header[..end], &header[end + 1..]))
        && let Ok(mut before) = forwarded_protos(one)
    {
        let joined = forwarded_protos(&[one, other].join(&b','));
        assert_eq!(
            joined.ok(),
            forwarded_protos(other).ok().map(|after| {
                before.extend(after);
                before
            })
        );
    }
});

/// The `proto` of each element.
fn naive(header: &[u8]) -> Option<Vec<Option<Vec<u8>>>> {
    cut(header, b',').into_iter().filter(|element| !element.is_empty()).map(element).collect()
}

fn element(element: &[u8]) -> Option<Option<Vec<u8>>> {
    let pairs: Vec<_> = cut(element, b';')
        .into_iter()
        .filter(|pair| !pair.is_empty())
        .map(pair)
        .collect::<Option<_>>()?;
    let mut names: Vec<_> = pairs.iter().map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    if names.len() < pairs.len() || names.len() > 32 {
        return None;
    }
    Some(pairs.into_iter().find(|(name, _)| name == b"proto").map(|(_, value)| value))
}

fn pair(pair: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (name, value) = pair.split_at(pair.iter().position(|&byte| byte == b'=')?);
    let value = value.strip_prefix(b"=")?;
    let value = match value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")) {
        Some(inner) => unescaped(inner)?,
        None => token(value)?,
    };
    Some((token(name)?.to_ascii_lowercase(), value))
}

fn token(text: &[u8]) -> Option<Vec<u8>> {
    let is_token = |byte: &u8| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(byte);
    (!text.is_empty() && text.iter().all(is_token)).then(|| text.to_vec())
}

/// The text between the quotes.
fn unescaped(inner: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = inner.iter().copied();
    let mut text = Vec::new();
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'"' => return None,
            b'\\' => bytes.next()?,
            byte => byte,
        };
        if byte != b'\t' && byte.is_ascii_control() {
            return None;
        }
        text.push(byte);
    }
    Some(text)
}

/// The pieces between separators that are not in quotes, without the blanks around them.
fn cut(text: &[u8], separator: u8) -> Vec<&[u8]> {
    let (mut in_quotes, mut escaped) = (false, false);
    let pieces = text.split(|&byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_quotes => escaped = true,
            b'"' => in_quotes = !in_quotes,
            byte => return byte == separator && !in_quotes,
        }
        false
    });
    pieces.map(trimmed).collect()
}

fn trimmed(mut piece: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = piece {
        piece = rest;
    }
    piece
}
