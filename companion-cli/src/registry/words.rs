//! The words of a registry, made safe for a terminal: short, on one line, without escape sequences.

use serde::Deserialize;

const LONGEST: usize = 300;

#[derive(Deserialize)]
struct Body {
    errors: Vec<Problem>,
}

#[derive(Deserialize)]
struct Problem {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// What the body of an answer says, if it says it as the protocol wants, or in plain text.
pub(super) fn of_body(body: &[u8]) -> String {
    let Ok(Body { errors }) = serde_json::from_slice(body) else {
        let text = String::from_utf8_lossy(body);
        let text = text.trim();
        return if text.starts_with(['<', '{', '[']) { String::new() } else { printable(text) };
    };
    let said = |problem: &Problem| match (problem.code.as_str(), problem.message.as_str()) {
        (code, "") => code.to_owned(),
        ("", message) => message.to_owned(),
        (code, message) => format!("{code}: {message}"),
    };
    printable(&errors.iter().map(said).collect::<Vec<_>>().join("; "))
}

/// Without anything that moves a cursor.
pub(super) fn printable(text: &str) -> String {
    let plain = text.chars().map(|character| if character.is_control() { ' ' } else { character });
    let mut short: String = plain.take(LONGEST).collect();
    if text.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_s_words_are_kept_and_its_tricks_are_not() {
        assert_eq!(of_body(br#"{"errors":[{"code":"DENIED","message":"no","detail":{"a":1}},{"code":"X"}]}"#), "DENIED: no; X");
        assert_eq!(of_body(b"\x1b[31mplease\r\nlook"), " [31mplease  look");
        assert_eq!(of_body(b"<html>"), "");
        assert_eq!(of_body(br#"{"token":"secret"}"#), "");
        assert_eq!(of_body(&b"x".repeat(1000)).chars().count(), LONGEST + 1);
    }
}
