//! Headers, serialised the way the host hands them over.

/// A name and a value.
pub type Header = (Vec<u8>, Vec<u8>);

/// Serialises headers.
pub fn serialise(headers: &[Header]) -> Vec<u8> {
    let length = |text: &[u8]| u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes();
    let mut map = u32::try_from(headers.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
    for (name, value) in headers {
        map.extend(length(name));
        map.extend(length(value));
    }
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        map.extend(text);
        map.push(0);
    }
    map
}
