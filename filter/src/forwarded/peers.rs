//! Address ranges, and whether an address is in any of them, in logarithmic time.

use core::net::IpAddr;
use core::str::FromStr;

use ipnet::{IpNet, Ipv4Net};

/// An address range, from a CIDR notation or a single address. An IPv4-mapped IPv6 address, as a
/// dual-stack listener shows it, counts as the IPv4 address that it is; other IPv6 ranges, `::/0`
/// too, hold no IPv4 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range(IpNet);

/// The reason why a text is not a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RangeError {
    /// The part before the slash is not an address.
    Address,
    /// The part after the slash is not a number from 0 to this.
    Length(u8),
    /// Bits after the prefix are set; this is the range without them.
    HostBits(String),
}

impl RangeError {
    /// The problem, and what to do.
    pub fn to_text(&self) -> String {
        match self {
            Self::Address => {
                "is not an address range: write it like `10.0.0.0/8`, `2001:db8::/32` or \
                 `192.0.2.1`"
                    .into()
            }
            Self::Length(most) => format!("has no prefix length from 0 to {most} behind the slash"),
            Self::HostBits(range) => format!("has bits set behind its prefix: write `{range}`"),
        }
    }
}

/// The parts are parsed here, because a single address is a range, too, and because `ipnet` does
/// not report which part is wrong.
impl FromStr for Range {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let (address, length) =
            text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| RangeError::Address)?;
        let range = match length {
            None => IpNet::from(address),
            Some(length) => {
                let wrong = RangeError::Length(IpNet::from(address).max_prefix_len());
                decimal(length).and_then(|length| IpNet::new(address, length).ok()).ok_or(wrong)?
            }
        };
        if range != range.trunc() {
            return Err(RangeError::HostBits(format!("{}", range.trunc())));
        }
        Ok(Self(canonical(range)))
    }
}

/// Parses only the canonical form, because other programs may read a leading zero as octal.
fn decimal(text: &str) -> Option<u8> {
    let number = text.parse().ok()?;
    (format!("{number}") == text).then_some(number)
}

/// Converts a range of IPv4-mapped addresses to the IPv4 range.
fn canonical(range: IpNet) -> IpNet {
    let IpNet::V6(v6) = range else { return range };
    let mapped =
        || Ipv4Net::new(v6.addr().to_ipv4_mapped()?, v6.prefix_len().checked_sub(96)?).ok();
    mapped().map_or(range, IpNet::V4)
}

/// A set of ranges: sorted, none of them within another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peers {
    ranges: Vec<IpNet>,
}

impl FromIterator<Range> for Peers {
    fn from_iter<I: IntoIterator<Item = Range>>(ranges: I) -> Self {
        let mut ranges: Vec<IpNet> = ranges.into_iter().map(|range| range.0).collect();
        ranges.sort_unstable();
        // two ranges overlap only if one contains the other
        ranges.dedup_by(|range, before| before.contains(&*range));
        Self { ranges }
    }
}

impl Peers {
    /// Whether every address of a family is in it.
    pub fn contains_every_address(&self) -> bool {
        let addresses = |range: &IpNet| {
            1_u128.checked_shl((range.max_prefix_len() - range.prefix_len()).into()).unwrap_or(0)
        };
        let size = |v4| {
            self.ranges
                .iter()
                .filter(|range| range.addr().is_ipv4() == v4)
                .map(addresses)
                .reduce(u128::wrapping_add)
        };
        size(true) == Some(1 << 32) || size(false) == Some(0) // 2^128 wraps around
    }

    /// Whether no range is in it.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether the address is in any of the ranges.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let index = self.ranges.partition_point(|range| range.network() <= address);
        index
            .checked_sub(1)
            .and_then(|index| self.ranges.get(index))
            .is_some_and(|range| range.contains(&address))
    }

    /// Parses an address as Envoy writes it, and looks it up. A text that is not an address is not
    /// contained.
    pub fn contains_text(&self, text: &[u8]) -> bool {
        let Ok(text) = core::str::from_utf8(text) else { return false };
        // the zone of a link-local address
        let address = text.split_once('%').map_or(text, |(address, _)| address);
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

    const OUTSIDE: &[&str] = &[
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
        " 10.0.0.1",
        "+10.0.0.1",
        "10.0.0.1/32",
        "[::1]",
        "[::1]:80",
        "::00001",
        "::1.2.3",
        "\u{e9}",
    ];

    #[wasm_bindgen_test(unsupported = test)]
    fn finds_addresses_of_both_families() {
        let set = peers(&[
            "10.0.0.0/8",
            "192.0.2.7",
            "2001:db8::/32",
            "203.0.113.128/25",
            "10.255.255.0/24",
            "::1",
        ]);
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
        for outside in OUTSIDE {
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
    fn texts_that_are_not_ranges_are_refused() {
        for (text, error) in [
            ("", RangeError::Address),
            ("10.0.0/8", RangeError::Address),
            ("10.0.0.0/", RangeError::Length(32)),
            ("10.0.0.0/33", RangeError::Length(32)),
            ("10.0.0.0/+8", RangeError::Length(32)),
            ("10.0.0.0/08", RangeError::Length(32)),
            ("10.0.0.0/ 8", RangeError::Length(32)),
            ("010.0.0.0/8", RangeError::Address),
            ("fe80::1%lo/128", RangeError::Address),
            ("[::1]", RangeError::Address),
            ("10.0.0.0/8/8", RangeError::Length(32)),
            ("::/129", RangeError::Length(128)),
            ("10.0.0.1/31", RangeError::HostBits("10.0.0.0/31".into())),
            ("::ffff:10.0.0.1/96", RangeError::HostBits("::ffff:0.0.0.0/96".into())),
            ("fe80::1/10", RangeError::HostBits("fe80::/10".into())),
        ] {
            assert_eq!(text.parse::<Range>(), Err(error), "{text}");
        }
    }

    #[cfg(not(target_arch = "wasm32"))]
    mod against_a_plain_search {
        use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

        use proptest::prelude::*;

        use super::super::{Peers, Range, RangeError};

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
            fn suggests_the_range_without_host_bits(
                v4: u32,
                v6: [u16; 8],
                zeros: u8,
                length in 0_u8..=128,
            ) {
                let mut few = v6;
                let groups = few.iter_mut().enumerate();
                groups
                    .filter(|(index, _)| zeros >> index & 1 == 1)
                    .for_each(|(_, group)| *group = 0);
                let few = Ipv6Addr::from(few);
                let bits = u128::from(few);
                for (address, meant) in [
                    (few.into(), network6(bits, length)),
                    (IpAddr::from(Ipv4Addr::from_bits(v4)), network(v4, length % 33)),
                ] {
                    let written = format!("{address}/{}", meant.1).parse::<Range>();
                    let expected: Range =
                        format!("{}/{}", meant.0, meant.1).parse().expect("a range");
                    match written {
                        Ok(range) => prop_assert_eq!((range, address), (expected, meant.0)),
                        Err(RangeError::HostBits(text)) => {
                            prop_assert_ne!(address, meant.0);
                            prop_assert_eq!(text.parse(), Ok(expected), "{}", text);
                            let (network, _) = text.split_once('/').expect("a slash");
                            prop_assert_eq!(network.parse(), Ok(meant.0), "{}", text);
                        }
                        Err(error) => prop_assert!(false, "{error:?}"),
                    }
                }
            }

            #[test]
            fn both_searches_find_the_same_addresses(
                networks in prop::collection::vec(any_network(), 0..12),
                v4 in 0x0a00_0000_u32..0x0a80_0010,
                low in 0_u128..16,
                high in 0_u128..16,
            ) {
                let range = |(network, length): &(IpAddr, u8)| {
                    format!("{network}/{length}").parse::<Range>().expect("a range")
                };
                let peers: Peers = networks.iter().map(range).collect();
                let v6 = Ipv6Addr::from_bits(0x2001_0db8 << 96 | high << 64 | low);
                for address in [IpAddr::from(Ipv4Addr::from_bits(v4)), v6.into()] {
                    let expected = networks.iter().any(|network| holds(network, address));
                    prop_assert_eq!(peers.contains(address), expected, "{}", address);
                }
            }
        }
    }
}
