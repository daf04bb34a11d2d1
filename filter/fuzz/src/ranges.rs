//! A naive version of address ranges: bit by bit, in no order.

use std::net::IpAddr;

/// An address as bits, the first one first.
type Bits = Vec<bool>;

/// A range: its family, and the common prefix of its addresses.
#[derive(Debug)]
pub struct Naive {
    v4: bool,
    prefix: Bits,
}

/// Parses a range; `None` if the text is not one.
pub fn read(text: &str) -> Option<Naive> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let mut prefix = bits(address);
    let length = match length {
        Some(digits) => (0..=prefix.len()).find(|length| length.to_string() == digits)?,
        None => prefix.len(),
    };
    if prefix.split_off(length).contains(&true) {
        return None;
    }
    let mapped = bits(IpAddr::from([0, 0, 0, 0, 0, 0xffff, 0, 0]));
    let v4_in_v6 = address
        .is_ipv6()
        .then(|| mapped.get(..96))
        .flatten()
        .and_then(|mapped| prefix.strip_prefix(mapped))
        .map(<[bool]>::to_vec);
    Some(match v4_in_v6 {
        Some(prefix) => Naive { v4: true, prefix },
        None => Naive { v4: address.is_ipv4(), prefix },
    })
}

impl Naive {
    /// Whether the address is in the range.
    pub fn holds(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.v4 == address.is_ipv4() && bits(address).starts_with(&self.prefix)
    }

    /// Whether all addresses of its family are in the range.
    pub fn holds_family(&self) -> bool {
        self.prefix.is_empty()
    }
}

fn bits(address: IpAddr) -> Bits {
    let bytes = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    bytes.into_iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1)).collect()
}
