//! Address ranges: the same texts are valid, and contain the same addresses, as in a naive version.
//! One range or address on each line.
#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use laststream_filter::forwarded::{Peers, Range, RangeError};
use laststream_fuzz::ranges;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut naive = Vec::new();
    let mut all = Vec::new();
    for line in text.lines() {
        let range: Result<Range, _> = line.parse();
        let expected = ranges::read(line);
        assert_eq!(range.is_ok(), expected.is_some(), "{line}: {range:?} instead of {expected:?}");
        if let Err(error) = &range {
            check_error(line, error);
        }
        all.extend(range.ok());
        naive.extend(expected);
    }
    let peers: Peers = all.iter().copied().collect();
    assert_eq!(
        peers,
        all.iter().rev().copied().chain(all.iter().copied()).collect(),
        "the order matters"
    );
    assert_eq!(peers.is_empty(), naive.is_empty());
    let addresses: Vec<_> = text
        .lines()
        .filter_map(|line| line.split('/').next()?.parse().ok())
        .flat_map(around)
        .collect();
    for &address in &addresses {
        let expected = naive.iter().any(|range| range.holds(address));
        assert_eq!(peers.contains(address), expected, "{address}");
        assert_eq!(
            peers.contains_text(address.to_string().as_bytes()),
            expected,
            "{address} as a text"
        );
    }
    if peers.contains_every_address() {
        let all = |v4| {
            addresses
                .iter()
                .filter(|address| address.to_canonical().is_ipv4() == v4)
                .all(|address| peers.contains(*address))
        };
        assert!(all(true) || all(false), "everyone, but not these");
    } else {
        assert!(!naive.iter().any(ranges::Naive::holds_family), "not everyone, but a whole family");
    }
    peers.contains_text(text.as_bytes());
});

/// Checks that the error has a text, and that a range that it suggests is valid.
fn check_error(line: &str, error: &RangeError) {
    assert!(!error.to_text().is_empty());
    if let RangeError::HostBits(instead) = error {
        assert!(instead.parse::<Range>().is_ok(), "{line}: offers {instead}, which is none");
    }
}

/// The address and its neighbours, for IPv4 also in their IPv6-mapped form.
fn around(address: IpAddr) -> Vec<IpAddr> {
    match address {
        IpAddr::V4(address) => {
            let bits = address.to_bits();
            let near = [bits, bits.wrapping_sub(1), bits.wrapping_add(1), bits ^ 0x100, !bits]
                .map(Ipv4Addr::from_bits);
            near.iter()
                .map(|&near| near.into())
                .chain(near.iter().map(|near| near.to_ipv6_mapped().into()))
                .collect()
        }
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            let near = [bits, bits.wrapping_sub(1), bits.wrapping_add(1), bits ^ 0x1_0000, !bits];
            near.map(|near| Ipv6Addr::from_bits(near).into()).to_vec()
        }
    }
}
