//! The view of serialised headers never shows more than the map contains, whatever lengths it
//! claims.
#![no_main]

use laststream_filter::headers::Headers;
use laststream_fuzz::map::{Header, serialise};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|map: &[u8]| {
    damaged(map);
    sound(map);
});

/// Checks the bytes as the map itself.
fn damaged(map: &[u8]) {
    let headers = Headers::new(map);
    let said = map.first_chunk().map_or(0, |count| u32::from_le_bytes(*count) as usize);
    assert!(
        headers.iter().count() <= said.min(map.len() / 10),
        "a header takes at least ten bytes"
    );
    let mut end = map.as_ptr() as usize + map.len().min(4);
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        let start = text.as_ptr() as usize;
        assert!(start >= end, "texts overlap");
        end = start + text.len() + 1;
    }
    assert!(end <= map.as_ptr() as usize + map.len().max(4), "read beyond the end");
    for (name, value) in headers.iter() {
        if let Ok(name) = std::str::from_utf8(name) {
            assert!(headers.all(name).any(|other| other == value));
            assert_eq!(headers.first(name), headers.all(name).next());
        }
    }
}

/// Checks the bytes as lines, each a header, serialised as the host does it.
fn sound(text: &[u8]) {
    let header = |line: &[u8]| -> Header {
        let middle = line.len() / 2;
        (line[..middle].to_vec(), line[middle..].to_vec())
    };
    let headers: Vec<_> = text.split(|&byte| byte == b'\n').map(header).collect();
    let map = serialise(&headers);
    let seen: Vec<_> =
        Headers::new(&map).iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    assert_eq!(seen, headers);
    // A map that is cut anywhere shows the first of the same headers.
    let cut = Headers::new(&map[..text.len().min(map.len())]);
    assert!(
        cut.iter()
            .zip(&headers)
            .all(|((name, value), header)| (name, value) == (&header.0, &header.1))
    );
}
