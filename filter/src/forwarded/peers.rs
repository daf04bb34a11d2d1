//! Address ranges, and whether an address is in any of them: in logarithmic time, however many there are.

use std::collections::BinaryHeap;
use std::net::IpAddr;
use std::str::FromStr;

use crate::pieces::{number, text};

/// An address range, from a CIDR notation or a single address. An IPv4-mapped IPv6 address, as a dual-stack listener shows it, counts
/// as the IPv4 address that it is; other IPv6 ranges, `::/0` too, hold no IPv4 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    v4: bool,
    first: u128,
    last: u128,
}

/// Why a text is no range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RangeError {
    /// The part before the slash is no address.
    Address,
    /// The part after the slash is no number from 0 to this.
    Length(u8),
    /// Bits behind the prefix are set; this is the range without them.
    HostBits(String),
}

impl RangeError {
    /// What it is, and the way out.
    pub fn to_text(&self) -> String {
        match self {
            Self::Address => "is not an address range: write it like `10.0.0.0/8`, `2001:db8::/32` or `192.0.2.1`".into(),
            Self::Length(most) => text!["has no prefix length from 0 to ", *most, " behind the slash"],
            Self::HostBits(range) => text!["has bits set behind its prefix: write `", range, "`"],
        }
    }
}

impl FromStr for Range {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let written: IpAddr = address.parse().map_err(|_| RangeError::Address)?;
        let written_width = width(written);
        let length = match length {
            None => written_width,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) && !(digits.len() > 1 && digits.starts_with('0')) => {
                digits.parse().ok().filter(|&length| length <= written_width).ok_or(RangeError::Length(written_width))?
            }
            Some(_) => return Err(RangeError::Length(written_width)),
        };
        let hosts = 1_u128.checked_shl(u32::from(written_width - length)).map_or(u128::MAX, |size| size - 1);
        let bits = bits(written);
        if bits & hosts != 0 {
            return Err(RangeError::HostBits(text![network(bits & !hosts, written.is_ipv4()), "/", length]));
        }
        Ok(match (written.to_canonical(), length) {
            (IpAddr::V4(address), _) if written.is_ipv4() || length >= 96 => {
                let first = u128::from(address.to_bits());
                Self { v4: true, first, last: first | hosts }
            }
            _ => Self { v4: false, first: bits, last: bits | hosts },
        })
    }
}

/// As people write it: the standard library's own writing is larger than all the rest here.
fn network(bits: u128, v4: bool) -> String {
    let mut text = String::new();
    if v4 {
        let [.., a, b, c, d] = bits.to_be_bytes();
        return text![a, ".", b, ".", c, ".", d];
    }
    let groups = 8 - bits.trailing_zeros().min(128) / 16;
    for group in 0..groups {
        number((bits >> (112 - 16 * group)) as u64 & 0xffff, 16, &mut text);
        text.push(':');
    }
    match groups {
        8 => drop(text.pop()),
        0 => text.push_str("::"),
        _ => text.push(':'),
    }
    text
}

const fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// A set of ranges: sorted, without overlaps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peers {
    ranges: Vec<Range>,
}

impl FromIterator<Range> for Peers {
    fn from_iter<I: IntoIterator<Item = Range>>(ranges: I) -> Self {
        // A heap sorts as well as `sort` does, with a tenth of its code.
        let sorted = ranges.into_iter().collect::<BinaryHeap<Range>>().into_sorted_vec();
        let mut merged: Vec<Range> = Vec::with_capacity(sorted.len());
        for range in sorted {
            match merged.last_mut() {
                Some(before) if before.v4 == range.v4 && range.first <= before.last.saturating_add(1) => {
                    before.last = before.last.max(range.last)
                }
                _ => merged.push(range),
            }
        }
        Self { ranges: merged }
    }
}

impl Peers {
    /// Whether every address of a family is in it.
    pub fn holds_everyone(&self) -> bool {
        let most = |range: &Range| if range.v4 { u128::from(u32::MAX) } else { u128::MAX };
        self.ranges.iter().any(|range| range.first == 0 && range.last == most(range))
    }

    /// Whether nobody is in it.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether the address is in any of the ranges.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let (v4, bits) = (address.is_ipv4(), bits(address));
        let behind = self.ranges.partition_point(|range| (range.v4, range.first) <= (v4, bits));
        behind.checked_sub(1).and_then(|index| self.ranges.get(index)).is_some_and(|range| range.v4 == v4 && bits <= range.last)
    }

    /// Reads an address as Envoy writes it, and looks it up. Text that is no address is nobody.
    pub fn contains_text(&self, text: &[u8]) -> bool {
        let Ok(text) = std::str::from_utf8(text) else { return false };
        let address = text.split('%').next().unwrap_or_default(); // the zone of a link-local address
        address.parse().is_ok_and(|address| self.contains(address))
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Peers, Range, RangeError};

    fn peers(ranges: &[&str]) -> Peers {
        ranges.iter().map(|range| range.parse::<Range>().expect(range)).collect()
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn finds_addresses_of_both_families() {
        let set = peers(&["10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "203.0.113.128/25", "10.255.255.0/24", "::1"]);
        for inside in [
            "10.0.0.0",
            "10.255.255.255",
            "::ffff:10.1.2.3",
            "192.0.2.7",
            "2001:db8::",
            "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
            "203.0.113.128",
            "203.0.113.255",
            "::1",
            "::1%lo",
        ] {
            assert!(set.contains_text(inside.as_bytes()), "{inside}");
        }
        for outside in [
            "9.255.255.255",
            "11.0.0.0",
            "192.0.2.6",
            "192.0.2.8",
            "2001:db7:ffff::",
            "2001:db9::",
            "203.0.113.127",
            "203.0.114.0",
            "::2",
            "",
            "10.0.0.1:80",
            "010.0.0.1",
            "10.0.0",
            "-",
            "pipe",
            "10.0.0.1 ",
            "\u{e9}",
        ] {
            assert!(!set.contains_text(outside.as_bytes()), "{outside}");
        }
        assert!(!set.contains_text(b"10.0.0.1\xff"));
        assert!(!peers(&[]).contains_text(b"10.0.0.1"));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn families_do_not_mix() {
        assert!(!peers(&["::/0"]).contains_text(b"10.0.0.1"));
        assert!(!peers(&["::/64"]).contains_text(b"::ffff:10.0.0.1"));
        assert!(!peers(&["0.0.0.0/0"]).contains_text(b"::1"));
        assert!(peers(&["::ffff:10.0.0.0/104"]).contains_text(b"10.9.9.9"));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn refuses_what_is_no_range() {
        for (text, error) in [
            ("", RangeError::Address),
            ("10.0.0/8", RangeError::Address),
            ("10.0.0.0/", RangeError::Length(32)),
            ("10.0.0.0/33", RangeError::Length(32)),
            ("10.0.0.0/+8", RangeError::Length(32)),
            ("10.0.0.0/08", RangeError::Length(32)),
            ("10.0.0.0/8/8", RangeError::Length(32)),
            ("::/129", RangeError::Length(128)),
            ("10.0.0.1/31", RangeError::HostBits("10.0.0.0/31".into())),
            ("::ffff:10.0.0.1/96", RangeError::HostBits("0:0:0:0:0:ffff::/96".into())),
            ("fe80::1/10", RangeError::HostBits("fe80::/10".into())),
        ] {
            assert_eq!(text.parse::<Range>(), Err(error), "{text}");
        }
    }

    #[cfg(not(target_arch = "wasm32"))]
    mod against_a_plain_search {
        use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

        use proptest::prelude::*;

        use super::super::{Peers, Range};

        fn network(bits: u32, length: u8) -> (IpAddr, u8) {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            (Ipv4Addr::from_bits(bits & mask).into(), length)
        }

        fn network6(bits: u128, length: u8) -> (IpAddr, u8) {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            (Ipv6Addr::from_bits(bits & mask).into(), length)
        }

        fn holds((network, length): &(IpAddr, u8), address: IpAddr) -> bool {
            match (network, address) {
                (IpAddr::V4(network), IpAddr::V4(address)) => {
                    let shift = 32 - u32::from(*length);
                    network.to_bits().checked_shr(shift) == address.to_bits().checked_shr(shift)
                }
                (IpAddr::V6(network), IpAddr::V6(address)) => {
                    let shift = 128 - u32::from(*length);
                    network.to_bits().checked_shr(shift) == address.to_bits().checked_shr(shift)
                }
                _ => false,
            }
        }

        fn any_network() -> impl Strategy<Value = (IpAddr, u8)> {
            // Few distinct bits, so that ranges touch, overlap and hold the addresses asked for.
            let few4 = (0_u32..8).prop_map(|bits| 0x0a00_0000 | bits << 20 | bits);
            let few6 = (0_u128..8).prop_map(|bits| 0x2001_0db8 << 96 | bits << 64 | bits);
            prop_oneof![
                (few4, 0_u8..=32).prop_map(|(bits, length)| network(bits, length)),
                (few6, 0_u8..=128).prop_map(|(bits, length)| network6(bits, length))
            ]
        }

        proptest! {
            #[test]
            fn finds_the_same(networks in prop::collection::vec(any_network(), 0..12), v4 in 0x0a00_0000_u32..0x0a80_0010, low in 0_u128..16, high in 0_u128..16) {
                let peers: Peers = networks.iter().map(|(network, length)| format!("{network}/{length}").parse::<Range>().expect("a range")).collect();
                for address in [IpAddr::from(Ipv4Addr::from_bits(v4)), Ipv6Addr::from_bits(0x2001_0db8 << 96 | high << 64 | low).into()] {
                    prop_assert_eq!(peers.contains(address), networks.iter().any(|network| holds(network, address)), "{}", address);
                }
            }
        }
    }
}
