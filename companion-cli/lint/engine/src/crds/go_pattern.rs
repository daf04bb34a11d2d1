//! Translates regular expressions of Go into the syntax of the crate `regex`, where the two differ.
//! Patterns that Go refuses are not detected, because the API server has already accepted the CRD.

use std::iter::Peekable;
use std::str::Chars;

/// The pattern for `regex::bytes`, which supports `\B` for ASCII only.
pub(super) fn translated(pattern: &str) -> String {
    let mut rest = pattern.chars().peekable();
    let mut out = String::with_capacity(pattern.len() + 16);
    while let Some(character) = rest.next() {
        match character {
            '\\' => escape(&mut rest, &mut out),
            '[' => class(&mut rest, &mut out),
            '{' if !begins_repeat(rest.clone()) => out.push_str(r"\{"),
            _ => out.push(character),
        }
    }
    out
}

/// Translates an escape outside of a class, after its backslash.
fn escape(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    match rest.next() {
        Some('b') => out.push_str(r"(?-u:\b)"),
        Some('B') => out.push_str(r"(?-u:\B)"),
        Some(name) => match set(name) {
            Some(set) => out.push_str(&set),
            None => other_escape(name, rest, out),
        },
        None => out.push('\\'),
    }
}

/// The class of `\d`, `\s` or `\w`, which are ASCII in Go; `\D`, `\S` and `\W` match all other
/// characters.
fn set(name: char) -> Option<String> {
    let set = match name.to_ascii_lowercase() {
        'd' => "0-9",
        's' => r"\t\n\f\r ",
        'w' => "0-9A-Za-z_",
        _ => return None,
    };
    let not = if name.is_ascii_lowercase() { "" } else { "^" };
    Some(format!("[{not}{set}]"))
}

/// Translates an escape that is not a set. In Go an escaped punctuation character is a literal; in
/// `regex` `\<` is the beginning of a word.
fn other_escape(name: char, rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    if name.is_ascii_punctuation() {
        return literal(name, out);
    }
    out.extend(['\\', name]);
    // `\x{10FFFF}`, `\p{Greek}`
    if matches!(name, 'x' | 'p' | 'P') && rest.peek() == Some(&'{') {
        for character in rest.by_ref() {
            out.push(character);
            if character == '}' {
                break;
            }
        }
    }
}

fn literal(character: char, out: &mut String) {
    if character.is_ascii_punctuation() && !matches!(character, '<' | '>') {
        out.push('\\');
    }
    out.push(character);
}

/// Whether a brace begins a repetition of Go: `{2}`, `{2,}` or `{2,3}`. Any other brace is a
/// literal.
fn begins_repeat(rest: Peekable<Chars<'_>>) -> bool {
    let ahead: String = rest.take(16).collect();
    let Some((inner, _)) = ahead.split_once('}') else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match inner.split_once(',') {
        Some((least, most)) => is_number(least) && (most.is_empty() || is_number(most)),
        None => is_number(inner),
    }
}

/// Translates a class, after its opening bracket. In Go a bracket within a class is a literal, and
/// there are no set operators.
fn class(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    out.push('[');
    if rest.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    let mut is_first = true;
    while let Some(character) = rest.next() {
        match character {
            ']' if !is_first => {
                out.push(']');
                return;
            }
            '[' if rest.peek() == Some(&':') && named(rest, out) => {}
            '\\' => class_escape(rest, out),
            _ => {
                literal(character, out);
                range(rest, out);
            }
        }
        is_first = false;
    }
}

/// Translates the end of a range. A `-` after a character is a range, unless the class ends with
/// it.
fn range(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    let mut ahead = rest.clone();
    if ahead.next() == Some('-') && ahead.next().is_some_and(|next| next != ']') {
        rest.next();
        out.push('-');
        match rest.next() {
            Some('\\') => other_escape(rest.next().unwrap_or('\\'), rest, out),
            Some(end) => literal(end, out),
            None => {}
        }
    }
}

/// Copies a named class such as `[:alpha:]`, if it is closed.
fn named(rest: &mut Peekable<Chars<'_>>, out: &mut String) -> bool {
    let ahead: String = rest.clone().take(12).collect();
    let Some((name, _)) = ahead.split_once(":]") else { return false };
    out.push_str(&format!("[{name}:]"));
    rest.nth(name.chars().count() + 1);
    true
}

fn class_escape(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    let Some(name) = rest.next() else { return };
    match set(name) {
        Some(set) => out.push_str(&set),
        None => {
            other_escape(name, rest, out);
            if !matches!(name, 'p' | 'P') {
                range(rest, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::bytes::Regex;

    use super::translated;

    fn is_match(pattern: &str, text: &str) -> bool {
        let translated = translated(pattern);
        let regex = Regex::new(&translated);
        let regex = regex.unwrap_or_else(|error| panic!("{pattern} as {translated}: {error}"));
        regex.is_match(text.as_bytes())
    }

    /// Pattern, a text that matches in Go, and one that does not.
    const GO: [(&str, &str, &str); 28] = [
        (r"^\d+$", "12", "١٢"),
        (r"^\D$", "é", "1"),
        (r"^\w+$", "a_1", "é"),
        (r"^\W$", "é", "a"),
        (r"^\s$", "\t", "\u{a0}"),
        (r"^\S$", "\u{a0}", " "),
        (r"é\b", "éa", "é"),
        (r"é\B", "é", "éa"),
        (r"^[\d.]+$", "1.2", "١"),
        (r"^[^\w]$", "é", "a"),
        (r"^[\Wx]+$", "éx", "y"),
        (r"^[^[]+$", "a]", "a["),
        (r"^[a[]+$", "a[", "b"),
        (r"^[a&&b]+$", "a&b", "c"),
        (r"^[a~~b]+$", "a~b", "c"),
        (r"^[a-c--]+$", "b-", "d"),
        (r"^[+--]+$", "+,-", "."),
        (r"^[]a-]+$", "]a-", "b"),
        (r"^[[:alpha:]\-]+$", "a-b", "1"),
        (r"^[\d-x]+$", "1-x", "a"),
        (r"^[\+-\-]+$", ",", "."),
        (r"^[[:alpha:]-_]+$", "a-_", "."),
        (r"^a{1$", "a{1", "a"),
        (r"^[\x{61}-\x{63}\]]+$", "abc]", "d"),
        (r"^\<a\>$", "<a>", "a"),
        (r"^{a}$", "{a}", "a"),
        (r"^a{,2}$", "a{,2}", "aa"),
        (r"^\pL{2,}$", "éa", "1a"),
    ];

    #[test]
    fn translated_patterns_match_as_in_go() {
        for (pattern, matches, does_not) in GO {
            assert!(is_match(pattern, matches), "{pattern} matches {matches}");
            assert!(!is_match(pattern, does_not), "{pattern} does not match {does_not}");
        }
    }

    proptest! {
        #[test]
        fn an_escaped_character_matches_itself(one in any::<char>()) {
            let escaped = if one.is_ascii_punctuation() { format!("\\{one}") } else { one.into() };
            let class = format!("^[{escaped}]$");
            let range = format!("^[{escaped}-{escaped}]$");
            for pattern in [format!("^{escaped}$"), class, range] {
                prop_assert!(is_match(&pattern, &one.to_string()), "{}", pattern);
            }
        }
    }
}
