//! Texts as scalars that mean the same to readers of YAML 1.1 and 1.2.

use std::fmt::Write as _;

use crate::{time_span, visible};

/// The text unquoted if every reader takes it for a string; otherwise in double quotes.
pub(super) fn scalar(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quoted(text) }
}

/// Only texts that are certainly strings are plain, so that no list of exceptions is needed: `on`,
/// `1_000`, `12:30:45`, `~`, `2024-01-01`, `=`, `<<` are not.
fn is_plain(text: &str) -> bool {
    if time_span::is_time(text) {
        return true;
    }
    let starts_well = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/');
    let harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./@:".contains(&byte);
    starts_well && text.bytes().all(harmless) && !text.ends_with(':') && !is_word(text)
}

/// The words that YAML 1.1 reads as something else.
fn is_word(text: &str) -> bool {
    const WORDS: &[&str] =
        &["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"];
    WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                out.push('\\');
                out.push(character);
            }
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            _ if is_printable(character) => out.push(character),
            _ => {
                // all of them are in the first plane
                let _ = write!(out, "\\u{:04X}", u32::from(character));
            }
        }
    }
    out.push('"');
    out
}

/// Whether a character may be written to a YAML file unescaped: it is no line break in any version
/// of YAML and does not steer a terminal.
pub(super) fn is_printable(character: char) -> bool {
    !(visible::steers(character) || matches!(character, '\u{FFFE}' | '\u{FFFF}'))
}

#[cfg(test)]
mod tests {
    use super::scalar;

    #[test]
    fn ambiguous_scalars_are_quoted() {
        #[rustfmt::skip]
        let quoted = [
            "", "on", "Yes", "NO", "y", "~", "null", "1_000", "12:30:45", "1:30", "0o7", "0x1f",
            "2024-01-01", "=", "<<", "1e3", ".inf", "-", "- a", "a: b", "a #b", "#a", "&a", "*a",
            "!a", "%a", "@a", "`a", "{a", "[a", "a,b", "'a'", " a", "a ", "a\nb", "a:", "|", ">",
            "?", "? a", "10.0.0.0/8", "é", "a\u{85}b", "s", "ms",
        ];
        for text in quoted {
            let written = scalar(text);
            assert!(
                written.starts_with('"') || ["s", "ms"].contains(&text),
                "{text} became {written}"
            );
        }
        assert_eq!(scalar("a\u{85}\"\\\n\u{FEFF}\u{202E}"), r#""a\u0085\"\\\n\uFEFF\u202E""#);
    }

    #[test]
    fn unambiguous_scalars_stay_unquoted() {
        for text in [
            "laststream",
            "30s",
            "500ms",
            "oci://ghcr.io/a/b@sha256:0f",
            "/healthz",
            "type.googleapis.com/a.b.v3.C",
            "x-forwarded-proto",
        ] {
            assert_eq!(scalar(text), text);
        }
    }
}
