//! Removes secrets from texts, because servers repeat what they were sent: raw or escaped.

/// The text that replaces a secret.
const MASK: &str = "…";

/// Finds secrets in raw text, and escaped as in URLs, JSON and HTML.
#[derive(Default)]
pub struct Mask {
    secrets: Vec<Vec<u8>>,
}

impl Mask {
    /// Adds a secret. One that is sent encoded must be added in that form, too.
    pub fn add(&mut self, secret: &str) {
        if !secret.is_empty() {
            self.secrets.push(secret.into());
        }
    }

    /// Replaces every secret. Shorten the text afterwards: a truncated secret is not found.
    pub fn apply(&self, text: &str) -> String {
        let mut masked = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(character) = text.get(at..).and_then(|rest| rest.chars().next()) {
            let ends = self.secrets.iter().filter_map(|secret| end(text.as_bytes(), at, secret));
            if let Some(end) = ends.max() {
                masked.push_str(MASK);
                at = end;
            } else {
                masked.push(character);
                at += character.len_utf8();
            }
        }
        masked
    }
}

/// The end of the secret, if it begins at `at`, whichever of its characters are escaped, and how.
fn end(text: &[u8], at: usize, secret: &[u8]) -> Option<usize> {
    let mut open = vec![(at, 0)];
    while let Some((at, known)) = open.pop() {
        let Some(tail) = secret.get(known..).filter(|wanted| !wanted.is_empty()) else {
            return Some(at);
        };
        let rest = text.get(at..).unwrap_or_default();
        let mut next = |written: usize, bytes: &[u8]| {
            if tail.starts_with(bytes) {
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
    let entities: [(&[u8], u8); 7] = [
        (b"&amp;", b'&'),
        (b"&quot;", b'"'),
        (b"&#34;", b'"'),
        (b"&apos;", b'\''),
        (b"&#39;", b'\''),
        (b"&lt;", b'<'),
        (b"&gt;", b'>'),
    ];
    entities
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
    use proptest::prelude::*;

    fn masked(secret: &str, text: &str) -> String {
        let mut mask = Mask::default();
        mask.add(secret);
        mask.apply(text)
    }

    #[test]
    fn every_escape_of_a_secret_is_masked() {
        assert_eq!(masked("hunter2", "no, hunter2: ö"), "no, …: ö");
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
        fn random_secrets_are_masked_with_every_escape(secret in ".{9,20}") {
            let percent: String = secret.bytes().map(|byte| format!("%{byte:02X}")).collect();
            prop_assert_eq!(masked(&secret, &format!("({percent})")), "(…)");
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
