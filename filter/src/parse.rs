//! Parsers that the standard library does not have.

use core::str::FromStr;

/// Parses a number of digits only: `str::parse` also accepts a plus sign in front.
pub(crate) fn digits<N: FromStr>(text: &[u8]) -> Option<N> {
    core::str::from_utf8(text).ok().filter(|text| !text.starts_with('+'))?.parse().ok()
}

/// Parses the next `N` words as numbers; none if they are fewer, or not numbers.
pub(crate) fn numbers<const N: usize>(words: &mut dyn Iterator<Item = &str>) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = words.next()?.parse().ok()?;
    }
    Some(numbers)
}

/// A text as one line of limited length. Blanks replace control characters, which would break lines
/// of the log and of listings.
pub(crate) fn printable_line(bytes: &[u8], longest: usize) -> String {
    let printable = |character: char| if character.is_control() { ' ' } else { character };
    String::from_utf8_lossy(bytes).chars().take(longest).map(printable).collect()
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{digits, numbers, printable_line};

    #[wasm_bindgen_test(unsupported = test)]
    fn parses_digits_only() {
        for (text, number) in [("0", 0), ("007", 7), ("18446744073709551615", u64::MAX)] {
            assert_eq!(digits(text.as_bytes()), Some(number), "{text}");
        }
        for text in [
            "",
            "+1",
            "-1",
            "-0",
            " 1",
            "1 ",
            "1a",
            "٣",
            "18446744073709551616",
            "184467440737095516150",
        ] {
            assert_eq!(digits::<u64>(text.as_bytes()), None, "{text}");
        }
        assert_eq!((digits::<u16>(b"65536"), digits::<u64>(b"\xff")), (None, None));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn parses_the_requested_number_of_words() {
        let mut words = "7 8 x y z".splitn(3, ' ');
        assert_eq!((numbers(&mut words), words.next()), (Some([7, 8]), Some("x y z")));
        assert_eq!(numbers::<2>(&mut "7".split(' ')), None);
        assert_eq!(numbers::<1>(&mut "x".split(' ')), None);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_line_has_no_control_characters() {
        assert_eq!(printable_line(b"a\r\nb\xff\tc", 5), "a  b\u{fffd}");
    }
}
