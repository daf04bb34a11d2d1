//! Addresses as Envoy and people write them.

use core::net::IpAddr;

use crate::words::{has, number, words};

/// An address of either family; one of IPv4 has 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) v4: bool,
    pub(super) bits: u128,
}

impl Address {
    /// Takes what the standard library takes, whose way to read it is larger than all else that is done with addresses here.
    pub(super) fn read(text: &str) -> Option<Self> {
        if !has(text, b':') {
            return Some(Self { v4: true, bits: v4(text)?.into() });
        }
        let gap = (0..text.len()).find(|index| text.get(*index..).is_some_and(|rest| rest.starts_with("::")));
        let bits = match gap {
            None => groups(text, true).filter(|(_, count)| *count == 8)?.0,
            Some(gap) => {
                let (before, count) = groups(text.get(..gap)?, false)?;
                let (after, _) = groups(text.get(gap + 2..)?, true).filter(|(_, more)| count + more < 8)?;
                before.checked_shl(128 - 16 * count).unwrap_or(0) | after
            }
        };
        Some(Self { v4: false, bits })
    }

    /// An IPv4-mapped IPv6 address, as a dual-stack listener shows it, is the IPv4 address that it stands for.
    pub(super) fn canonical(self) -> Self {
        if !self.v4 && self.bits >> 32 == 0xffff { Self { v4: true, bits: self.bits & 0xffff_ffff } } else { self }
    }
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self { v4: true, bits: address.to_bits().into() },
            IpAddr::V6(address) => Self { v4: false, bits: address.to_bits() },
        }
    }
}

/// Four numbers. A zero in front would make others read it as octal.
fn v4(text: &str) -> Option<u32> {
    let mut bits = 0;
    let mut count = 0;
    for word in words(text, b'.') {
        let byte = number(word.as_bytes()).and_then(|number| u8::try_from(number).ok())?;
        if word.len() > 1 && word.starts_with('0') {
            return None;
        }
        bits = bits << 8 | u32::from(byte);
        count += 1;
    }
    (count == 4).then_some(bits)
}

/// Up to eight groups of four digits, and how many; the last two may be an IPv4 address where the whole ends.
fn groups(text: &str, at_the_end: bool) -> Option<(u128, u32)> {
    let (mut bits, mut count) = (0, 0);
    let mut rest = words(text, b':');
    while let Some(word) = rest.next().filter(|_| !text.is_empty()) {
        if at_the_end && rest.is_over() && has(word, b'.') {
            bits = bits << 32 | u128::from(v4(word)?);
            count += 2;
        } else {
            let digit = |group: u32, digit: u8| Some(group * 16 + char::from(digit).to_digit(16)?);
            let group = Some(word).filter(|word| (1..=4).contains(&word.len()))?.bytes().try_fold(0, digit)?;
            bits = bits << 16 | u128::from(group);
            count += 1;
        }
        if count > 8 {
            return None;
        }
    }
    Some((bits, count))
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Address, IpAddr};

    fn reads_as_the_standard_library_does(text: &str) {
        assert_eq!(Address::read(text), text.parse::<IpAddr>().ok().map(Address::from), "{text:?}");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn reads_what_the_standard_library_reads() {
        let texts = [
            "",
            ".",
            ":",
            "::",
            ":::",
            "::::",
            "1",
            "1.2.3.4",
            "1.2.3",
            "1.2.3.4.5",
            "01.2.3.4",
            "1.2.3.256",
            "1.2.3.4 ",
            "+1.2.3.4",
            "1..3.4",
            "0.0.0.0",
            "255.255.255.255",
            "1.2.3.0000",
            "::1",
            "1::",
            "1:2:3:4:5:6:7:8",
            "1:2:3:4:5:6:7",
            "1:2:3:4:5:6:7:8:9",
            "::2:3:4:5:6:7:8",
            "1::2:3:4:5:6:7:8",
            "1:2:3:4:5:6:7::",
            "1:2:3:4:5:6:7:8::",
            "1:2:3:4:5:6:7::8",
            "1::2::3",
            "::1::",
            "::ffff:1.2.3.4",
            "::1.2.3.4",
            "1.2.3.4::",
            "1.2.3.4::1",
            "1:2:3:4:5:6:1.2.3.4",
            "1:2:3:4:5:6:7:1.2.3.4",
            "1:2:3:4:5:1.2.3.4",
            "::1.2.3.4:5",
            "1:1.2.3.4::",
            "::2:3:4:5:6:1.2.3.4",
            "::2:3:4:5:6:7:1.2.3.4",
            "12345::",
            "::g",
            "fe80::1%lo",
            "[::1]",
            "::FFFF",
            "1:",
            ":1",
            "1::2:",
            ":1::2",
            "::1.2.3",
            "::1.2.3.4.5",
            "::é",
            "1:2:3:4:5:6:7:8:",
            "::0001",
            "::00001",
            ":: 1",
            "::-1",
        ];
        texts.into_iter().for_each(reads_as_the_standard_library_does);
    }

    #[cfg(not(target_arch = "wasm32"))]
    proptest::proptest! {
        #[test]
        fn reads_the_same_of_anything_like_it(text in "[0-9a-f:.]{0,20}|([0-9a-f]{0,5}(:|::|\\.)){0,9}([0-9]{1,3}\\.){0,4}[0-9a-f]{0,4}") {
            reads_as_the_standard_library_does(&text);
        }

        #[test]
        fn reads_what_the_standard_library_writes(v4: [u8; 4], v6: [u16; 8], zeros: u8) {
            let mut few = v6;
            few.iter_mut().enumerate().filter(|(index, _)| zeros >> index & 1 == 1).for_each(|(_, group)| *group = 0);
            for address in [IpAddr::from(v4), v6.into(), few.into()] {
                reads_as_the_standard_library_does(&address.to_string());
            }
        }
    }
}
