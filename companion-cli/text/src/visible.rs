//! Replaces the characters that steer a terminal, or change the order in which text is shown, by
//! visible escapes. The printer applies it to everything that it prints; a field that must stay on
//! one line is escaped where it is inserted.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Escapes a text of several lines.
pub fn text(text: &str) -> Cow<'_, str> {
    escaped(text, |character| steers(character) && !matches!(character, '\n' | '\t'), rust)
}

/// Escapes a text that must stay on one line.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, steers, rust)
}

/// A message of another program as a part of a sentence: escaped, on one line, and shortened.
pub fn brief(text: &str) -> String {
    cut_line(text.trim(), LONGEST_BRIEF)
}

/// Escapes a text on one line, and cuts it after `most` characters with an ellipsis.
pub fn cut_line(text: &str, most: usize) -> String {
    let visible = line(text);
    let mut characters = visible.chars();
    let mut cut: String = characters.by_ref().take(most).collect();
    cut.extend(characters.next().map(|_| '…'));
    cut
}

/// The most characters of another program's message that are shown.
const LONGEST_BRIEF: usize = 200;

/// Escapes JSON without changing its value. Outside of strings only `\r` changes: to a blank.
pub fn json(text: &str) -> Cow<'_, str> {
    escaped(
        text,
        |character| steers(character) && !matches!(character, '\n' | '\t'),
        |character, out| match character {
            '\r' => out.push(' '), // in a string it would be written `\r`
            _ => {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    let _ = write!(out, "\\u{unit:04x}"); // writing to a String cannot fail
                }
            }
        },
    )
}

/// Escapes a text with this program's own colours: sequences for colours stay, all others are
/// escaped.
pub fn coloured(coloured: &str) -> String {
    let mut out = String::with_capacity(coloured.len());
    let mut rest = coloured;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        out.push_str(&text(before));
        let end = after.find('m').filter(|&end| is_colour(after.get(..end).unwrap_or_default()));
        match end.and_then(|end| after.split_at_checked(end + 1)) {
            Some((colour, after)) => {
                out.push('\u{1b}');
                out.push_str(colour);
                rest = after;
            }
            None => {
                rust('\u{1b}', &mut out);
                rest = after;
            }
        }
    }
    out.push_str(&text(rest));
    out
}

/// Whether the sequence sets a colour, such as `[1;31`.
fn is_colour(sequence: &str) -> bool {
    sequence
        .strip_prefix('[')
        .is_some_and(|codes| codes.bytes().all(|byte| byte.is_ascii_digit() || byte == b';'))
}

/// Whether a character moves the cursor, begins a command for the terminal, breaks the line, or
/// changes the direction of writing.
pub fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped<'a>(
    text: &'a str,
    is_wrong: impl Fn(char) -> bool,
    escape: impl Fn(char, &mut String),
) -> Cow<'a, str> {
    if !text.contains(&is_wrong) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_wrong(character) { escape(character, &mut out) } else { out.push(character) }
    }
    Cow::Owned(out)
}

/// Writes a character as Rust does: `\r`, `\u{1b}`.
fn rust(character: char, out: &mut String) {
    match character {
        '\n' | '\r' | '\t' => out.extend(character.escape_default()),
        _ => out.extend(character.escape_unicode()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn control_characters_are_escaped_and_other_text_stays() {
        assert_eq!(text("a\tb\nc é 日本 👍🏽 \u{200d}"), "a\tb\nc é 日本 👍🏽 \u{200d}");
        assert_eq!(
            text("\r\u{1b}[2K\u{7f}\u{9b}\u{202e}\u{2028}"),
            "\\r\\u{1b}[2K\\u{7f}\\u{9b}\\u{202e}\\u{2028}"
        );
        assert_eq!(line("a\nb\tc"), "a\\nb\\tc");
        assert_eq!(brief(" a\nb \n"), "a\\nb");
        assert_eq!(brief(&"é\n".repeat(1_000)).chars().count(), LONGEST_BRIEF + 1);
        assert_eq!((cut_line("abc", 3).as_str(), cut_line("abcd", 3).as_str()), ("abc", "abc…"));
        assert_eq!(
            coloured("\u{1b}[1;31merror\u{1b}[0m\u{1b}[2J\u{1b}"),
            "\u{1b}[1;31merror\u{1b}[0m\\u{1b}[2J\\u{1b}"
        );
    }

    proptest! {
        #[test]
        fn escaped_text_has_no_control_characters(given: String) {
            prop_assert!(!line(&given).contains(steers));
            let breaks = |character| matches!(character, '\n' | '\t');
            prop_assert!(!text(&given).contains(|found| steers(found) && !breaks(found)));
        }

        #[test]
        fn escaped_json_has_the_same_value(given: String) {
            let object = serde_json::json!({ &given: [&given] }).to_string();
            let list = format!("{:#}", serde_json::json!([&given])).replace('\n', "\r\n");
            for written in [object, list] {
                let shown = json(&written);
                let has_steering = shown.contains(|found| steers(found) && found != '\n');
                prop_assert!(!has_steering, "{}", shown);
                let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
                prop_assert_eq!(parse(&shown), parse(&written));
            }
        }
    }
}
