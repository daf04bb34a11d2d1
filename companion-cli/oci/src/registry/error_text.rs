//! Error messages of a registry, made safe for a terminal: short, on one line, without escape
//! sequences.

use serde::Deserialize;

use laststream_base::visible;
use laststream_http::mask::Mask;

const LONGEST: usize = 300;

/// The kind of server, which decides how much of its error text is shown.
#[derive(Debug, Clone, Copy)]
pub(super) enum ErrorText {
    /// JSON as the protocol defines it, or plain text.
    OfRegistry,
    /// Codes and messages of JSON alone: any other text of a token server may repeat the request,
    /// with the credentials in it.
    OfTokenServer,
}

/// `errors` of registries and their token servers; `error` of OAuth.
#[derive(Default, Deserialize)]
struct Body {
    #[serde(default)]
    errors: Vec<ErrorEntry>,
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_description: String,
}

#[derive(Deserialize)]
struct ErrorEntry {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl ErrorText {
    /// The error message in the body of a response, without secrets.
    pub(super) fn of_body(self, body: &[u8], mask: &Mask) -> String {
        let text = String::from_utf8_lossy(body);
        let message = match (serde_json::from_slice(body), self) {
            (Ok(body), _) => of_json(body),
            (Err(_), Self::OfRegistry) if !text.trim().starts_with(['<', '{', '[']) => {
                text.trim().to_owned()
            }
            (Err(_), _) => String::new(),
        };
        printable(&mask.apply(&message))
    }
}

fn of_json(body: Body) -> String {
    let oauth = ErrorEntry { code: body.error, message: body.error_description };
    let message = |problem: &ErrorEntry| match (problem.code.as_str(), problem.message.as_str()) {
        (code, "") => code.to_owned(),
        ("", message) => message.to_owned(),
        (code, message) => format!("{code}: {message}"),
    };
    let all = body.errors.iter().chain([&oauth]).map(message).filter(|message| !message.is_empty());
    all.collect::<Vec<_>>().join("; ")
}

/// Shortens the text, and replaces the characters that steer a terminal by blanks.
pub(super) fn printable(text: &str) -> String {
    let plain =
        text.chars().map(|character| if visible::steers(character) { ' ' } else { character });
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
    fn messages_are_kept_without_control_characters_and_secrets() {
        let of_body = |body: &[u8]| ErrorText::OfRegistry.of_body(body, &Mask::default());
        assert_eq!(
            of_body(
                br#"{"errors":[{"code":"DENIED","message":"no","detail":{"a":1}},{"code":"X"}]}"#
            ),
            "DENIED: no; X"
        );
        assert_eq!(of_body(b"\x1b[31mplease\r\nlook"), " [31mplease  look");
        assert_eq!(of_body(b"<html>"), "");
        assert_eq!(of_body(br#"{"token":"secret"}"#), "");
        assert_eq!(of_body(&b"x".repeat(1000)).chars().count(), LONGEST + 1);
        let of_body = |body: &[u8]| ErrorText::OfTokenServer.of_body(body, &Mask::default());
        assert_eq!(
            of_body(br#"{"error":"denied","error_description":"no","request":"secret"}"#),
            "denied: no"
        );
        assert_eq!(of_body(b"secret"), "");
    }
}
