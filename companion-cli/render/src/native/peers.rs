//! The trusted peers of the policy, by the address of the direct peer.

use std::net::IpAddr;

use super::matcher::{Test, Text, any};

/// Comparing more texts than this takes longer than one look-up in the ranges.
const FEW: usize = 4;

/// The test that the direct peer is in one of these ranges, which were checked when the policy was
/// read.
pub(super) fn test(ranges: &[String]) -> Test {
    let ranges = self::ranges(ranges);
    let (short, others): (Vec<_>, Vec<_>) =
        ranges.iter().copied().partition(|&(address, length)| as_text(address, length).is_some());
    if short.is_empty() || short.len() > FEW {
        return Test::PeerIn(ranges);
    }
    let texts = short
        .into_iter()
        .filter_map(|(address, length)| as_text(address, length))
        .map(Test::PeerText);
    any(texts.chain((!others.is_empty()).then_some(Test::PeerIn(others))))
}

/// Addresses and lengths of prefixes, each once: Envoy refuses a filter chain that names one twice.
pub(crate) fn ranges(texts: &[String]) -> Vec<(IpAddr, u8)> {
    let mut ranges: Vec<(IpAddr, u8)> = Vec::with_capacity(texts.len());
    for range in texts.iter().filter_map(|text| read(text)) {
        if !ranges.contains(&range) {
            ranges.push(range);
        }
    }
    ranges
}

/// Envoy shows an IPv4 address of a dual-stack listener as the IPv4 address that it is.
fn read(range: &str) -> Option<(IpAddr, u8)> {
    let (address, length) =
        range.split_once('/').map_or((range, None), |(address, length)| (address, Some(length)));
    let address: IpAddr = address.parse().ok()?;
    let length = match length {
        Some(length) => length.parse().ok()?,
        None if address.is_ipv4() => 32,
        None => 128,
    };
    match address.to_canonical() {
        canonical if canonical.is_ipv4() && address.is_ipv6() && length >= 96 => {
            Some((canonical, length - 96))
        }
        _ => Some((address, length)),
    }
}

/// The beginning of an IPv4 address, if the range ends at a dot. Comparing it costs less than a
/// range.
fn as_text(address: IpAddr, length: u8) -> Option<Text> {
    let IpAddr::V4(address) = address else { return None };
    let octets = address.octets();
    match length {
        32 => Some(Text::Exact(address.to_string())),
        8 | 16 | 24 => Some(Text::Prefix(
            octets.iter().take(usize::from(length / 8)).map(|octet| format!("{octet}.")).collect(),
        )),
        _ => None,
    }
}
