//! Texts taken apart. The standard library's ways are made for every need, and were larger than all that is done here with them.

use alloc::string::String;

use crate::pieces::Piece as _;

/// What comes before the first such byte, which is ASCII, and what comes after it.
pub(crate) fn cut(text: &str, at: u8) -> Option<(&str, &str)> {
    around(text, text.bytes().position(|byte| byte == at)?)
}

/// The same with the last one.
pub(crate) fn cut_last(text: &str, at: u8) -> Option<(&str, &str)> {
    around(text, text.bytes().rposition(|byte| byte == at)?)
}

fn around(text: &str, index: usize) -> Option<(&str, &str)> {
    Some((text.get(..index)?, text.get(index + 1..)?))
}

/// Whether there is such a byte, which is ASCII.
pub(crate) fn has(text: &str, what: u8) -> bool {
    text.bytes().any(|byte| byte == what)
}

/// The words between such bytes.
pub(crate) fn words(text: &str, between: u8) -> Words<'_> {
    Words { rest: Some(text), between }
}

/// See [`words`].
#[derive(Debug, Clone)]
pub(crate) struct Words<'t> {
    rest: Option<&'t str>,
    between: u8,
}

impl<'t> Words<'t> {
    /// The next word, if it is a number.
    pub(crate) fn number(&mut self) -> Option<u64> {
        number(self.next()?.as_bytes())
    }

    /// The next word, if it is a number that is not too large.
    pub(crate) fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// The next words, if they are as many numbers.
    pub(crate) fn numbers<const N: usize>(&mut self) -> Option<[u64; N]> {
        let mut numbers = [0; N];
        self.fill(&mut numbers).then_some(numbers)
    }

    fn fill(&mut self, numbers: &mut [u64]) -> bool {
        numbers.iter_mut().all(|place| self.number().map(|number| *place = number).is_some())
    }

    /// Whether there is no next word.
    pub(crate) fn is_over(&self) -> bool {
        self.rest.is_none()
    }

    /// All that is left, whatever is between.
    pub(crate) fn rest(self) -> &'t str {
        self.rest.unwrap_or_default()
    }
}

impl<'t> Iterator for Words<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let rest = self.rest.take()?;
        let Some((word, rest)) = cut(rest, self.between) else { return Some(rest) };
        self.rest = Some(rest);
        Some(word)
    }
}

/// A number in digits, and nothing but digits.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    let digit = |byte: &u8| byte.checked_sub(b'0').filter(|digit| *digit < 10);
    let more = |number: u64, byte| number.checked_mul(10)?.checked_add(digit(byte)?.into());
    if digits.is_empty() { None } else { digits.iter().try_fold(0, more) }
}

/// What is not UTF-8 is shown as such.
pub(crate) fn lossy(mut bytes: &[u8]) -> String {
    let mut text = String::new();
    loop {
        let error = match core::str::from_utf8(bytes) {
            Ok(rest) => {
                rest.add(&mut text);
                return text;
            }
            Err(error) => error,
        };
        let (valid, rest) = bytes.split_at_checked(error.valid_up_to()).unwrap_or_default();
        core::str::from_utf8(valid).unwrap_or_default().add(&mut text);
        text.push(char::REPLACEMENT_CHARACTER);
        bytes = error.error_len().and_then(|length| rest.get(length..)).unwrap_or_default();
    }
}

/// In one line and not too long, for people: control characters would break the log's line, and lists.
pub(crate) fn line(bytes: &[u8], longest: usize) -> String {
    let mut text = String::new();
    for character in lossy(bytes).chars().take(longest) {
        text.push(if character.is_control() { ' ' } else { character });
    }
    text
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{cut, cut_last, line, lossy, number, words};

    #[wasm_bindgen_test(unsupported = test)]
    fn takes_apart_as_the_standard_library_does() {
        for text in ["", "=", "a", "a=", "=a", "a=b", "a=b=c", "==", "é=ü=€"] {
            assert_eq!(cut(text, b'='), text.split_once('='), "{text}");
            assert_eq!(cut_last(text, b'='), text.rsplit_once('='), "{text}");
            assert!(words(text, b'=').eq(text.split('=')), "{text}");
        }
        let mut some = words("7 4294967296 x y z", b' ');
        assert_eq!((some.number(), some.small(), some.next(), some.rest()), (Some(7), None, Some("x"), "y z"));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn reads_digits_and_nothing_else() {
        for text in ["0", "007", "18446744073709551615", "18446744073709551616", "184467440737095516150", ""] {
            assert_eq!(number(text.as_bytes()), text.parse().ok(), "{text}");
        }
        for text in ["+1", "-1", " 1", "1 ", "1a", "٣"] {
            assert_eq!(number(text.as_bytes()), None, "{text}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn shows_what_is_no_text() {
        for bytes in [&b""[..], b"a\xc3\xa9", b"\xff", b"a\xffb\xc3", b"\xe2\x82", b"\xe2\x82\xac\xe2\x82(", b"\xf0\x9f\x92\xff\xff"] {
            assert_eq!(lossy(bytes), String::from_utf8_lossy(bytes), "{bytes:?}");
        }
        assert_eq!(line(b"a\r\nb\xff\tc", 5), "a  b\u{fffd}");
    }
}
