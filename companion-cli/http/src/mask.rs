//! Removes secrets from texts, because servers repeat what they were sent: raw, encoded or escaped.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};

/// The text that replaces a secret.
const MASK: &str = "…";
/// Shorter pieces of base64 occur in texts by chance.
const SHORTEST_BASE64: usize = 8;

/// Finds secrets in raw text, in base64, and escaped as in URLs, JSON and HTML.
#[derive(Default)]
pub struct Mask {
    plain: Vec<Vec<u8>>,
    /// The base64 characters that depend on the secret alone, whatever is encoded before and after
    /// it.
    base64: Vec<Vec<u8>>,
}

impl Mask {
    /// Adds a secret.
    pub fn add(&mut self, secret: &str) {
        if secret.is_empty() {
            return;
        }
        self.plain.push(secret.into());
        for offset in 0..3 {
            let bytes = [&[0; 2][..offset.min(2)], secret.as_bytes()].concat();
            let (from, to) = ((offset * 8).div_ceil(6), bytes.len() * 8 / 6);
            for engine in [BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD] {
                let core = engine
                    .encode(&bytes)
                    .into_bytes()
                    .get(from..to)
                    .map(<[u8]>::to_vec)
                    .unwrap_or_default();
                if core.len() >= SHORTEST_BASE64 && !self.base64.contains(&core) {
                    self.base64.push(core);
                }
            }
        }
    }

    /// Replaces every secret. Shorten the text afterwards: a truncated secret is not found.
    pub fn apply(&self, text: &str) -> String {
        let mut masked = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(character) = text.get(at..).and_then(|rest| rest.chars().next()) {
            if let Some(end) = longest(&self.plain, text, at) {
                masked.push_str(MASK);
                at = end;
            } else if let Some(end) = longest(&self.base64, text, at) {
                // Also masks the text that was encoded together with the secret.
                masked.truncate(masked.trim_end_matches(is_base64).len());
                masked.push_str(MASK);
                let rest = text.get(end..).unwrap_or_default();
                at = end + rest.len() - rest.trim_start_matches(is_base64).len();
            } else {
                masked.push(character);
                at += character.len_utf8();
            }
        }
        masked
    }
}

/// Also accepts the escapes of a URL.
fn is_base64(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '+' | '/' | '-' | '_' | '=' | '%')
}

fn longest(secrets: &[Vec<u8>], text: &str, at: usize) -> Option<usize> {
    let first = *text.as_bytes().get(at)?;
    let may_begin = |secret: &&Vec<u8>| {
        secret.first() == Some(&first) || matches!(first, b'%' | b'+' | b'\\' | b'&')
    };
    secrets.iter().filter(may_begin).filter_map(|secret| end(text.as_bytes(), at, secret)).max()
}

/// The end of the secret, if it begins at `at`, whichever of its characters are escaped, and how.
fn end(text: &[u8], at: usize, secret: &[u8]) -> Option<usize> {
    let mut open = vec![(at, 0)];
    while let Some((at, known)) = open.pop() {
        let Some(wanted) = secret.get(known..).filter(|wanted| !wanted.is_empty()) else {
            return Some(at);
        };
        let rest = text.get(at..).unwrap_or_default();
        let mut next = |written: usize, bytes: &[u8]| {
            if wanted.starts_with(bytes) {
                open.push((at + written, known + bytes.len()));
            }
        };
        if let Some(first) = rest.first() {
            next(1, &[*first]);
        }
        if let Some((written, bytes)) = unescaped(rest) {
            next(written, &bytes);
        }
    }
    None
}

type Unescaped = Option<(usize, Vec<u8>)>;

/// The escape that the text begins with, by the rules of URLs, JSON or HTML: its length in the
/// text, and the bytes that it stands for.
fn unescaped(text: &[u8]) -> Unescaped {
    match text.first()? {
        b'%' => Some((3, vec![u8::try_from(hex(text.get(1..3))?).ok()?])),
        b'+' => Some((1, vec![b' '])),
        b'\\' => of_json(text),
        b'&' => of_html(text),
        _ => None,
    }
}

fn of_json(text: &[u8]) -> Unescaped {
    let short = |character| Some((2, vec![character]));
    match text.get(1)? {
        b'b' => short(8),
        b'f' => short(12),
        b'n' => short(b'\n'),
        b'r' => short(b'\r'),
        b't' => short(b'\t'),
        b'u' => {
            let unit = |from: usize| {
                hex(text.get(from..from + 4)).and_then(|unit| u16::try_from(unit).ok())
            };
            let pair =
                [unit(2)?, if text.get(6..8) == Some(b"\\u") { unit(8).unwrap_or(0) } else { 0 }];
            let character = char::decode_utf16(pair).next()?.ok()?;
            Some((6 * character.len_utf16(), character.to_string().into_bytes()))
        }
        other => short(*other),
    }
}

fn of_html(text: &[u8]) -> Unescaped {
    let known: [(&[u8], u8); 7] = [
        (b"&amp;", b'&'),
        (b"&quot;", b'"'),
        (b"&#34;", b'"'),
        (b"&apos;", b'\''),
        (b"&#39;", b'\''),
        (b"&lt;", b'<'),
        (b"&gt;", b'>'),
    ];
    known
        .iter()
        .find(|(name, _)| text.starts_with(name))
        .map(|(name, character)| (name.len(), vec![*character]))
}

fn hex(digits: Option<&[u8]>) -> Option<u32> {
    let digits = std::str::from_utf8(digits?)
        .ok()
        .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
    use proptest::prelude::*;

    fn masked(secret: &str, text: &str) -> String {
        let mut mask = Mask::default();
        mask.add(secret);
        mask.apply(text)
    }

    #[test]
    fn every_encoding_of_a_secret_is_masked() {
        assert_eq!(
            masked("hunter2", "no, hunter2 and Basic dGVzdGVyOmh1bnRlcjI=: ö"),
            "no, … and Basic …: ö"
        );
        assert_eq!(
            masked("a b/ö%", r#"[a+b%2f%C3%b6%25] [a b\/\u00f6%] [a&b/ö%]"#),
            "[…] […] [a&b/ö%]"
        );
        assert_eq!(masked("👍\"", r#"\ud83d\udc4d\" 👍&quot;"#), "… …");
        assert_eq!(masked("%41", "%41 %2541 A"), "… … A");
        assert_eq!(masked("", "text"), "text");
        assert_eq!(masked("xy", "\\u12 %4 &am \\"), "\\u12 %4 &am \\");
    }

    proptest! {
        #[test]
        fn random_secrets_are_masked_in_every_encoding(
            before in "[a-z:]{0,4}",
            secret in ".{9,20}",
            after in ".{0,4}",
        ) {
            let whole = format!("{before}{secret}{after}");
            let percent = |text: &str| -> String {
                text.bytes().map(|byte| format!("%{byte:02X}")).collect()
            };
            let base64 = BASE64_STANDARD.encode(&whole);
            for written in [percent(&base64), base64, BASE64_URL_SAFE.encode(&whole)] {
                prop_assert_eq!(masked(&secret, &format!("({written})")), "(…)");
            }
            prop_assert_eq!(masked(&secret, &format!("({})", percent(&secret))), "(…)");
            let json = serde_json::json!(secret).to_string();
            prop_assert_eq!(masked(&secret, &json), "\"…\"");
        }

        #[test]
        fn masking_never_panics(secret: String, text: String) {
            let _ = masked(&secret, &text);
            let _ = masked("%\\&", &text);
        }
    }
}
