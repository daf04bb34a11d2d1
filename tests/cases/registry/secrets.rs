//! Servers that repeat what they were sent: no output of the program shows a secret.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::logins::auth;
use super::{PASSWORD, USERNAME, push, unauthorized, user_with_password, wants_password};
use crate::lab::envoyless_cases;
use kit::command::CommandOutput;
use kit::fake_server::{Answer, Fault};
use kit::prelude::*;
use kit::registry::faulty::{Faulty, Operation};

envoyless_cases! {
    a_password_that_a_registry_repeats_is_hidden,
    secrets_that_a_token_server_repeats_are_hidden,
    encoded_secrets_that_a_registry_repeats_are_hidden,
}

fn a_password_that_a_registry_repeats_is_hidden() -> Outcome {
    let faulty =
        Faulty::start(|asked, operation, _| match (asked.header("authorization"), operation) {
            (Some(shown), Operation::BeginUpload) => Some(Fault::Answer(
                Answer::new(403).body(format!("no, {shown} and {PASSWORD}: not allowed")),
            )),
            _ => wants_password(asked),
        })?;
    let user = user_with_password(PASSWORD)?;
    let said = push(&user, &[&format!("{}/x:1", faulty.name())])?.expect(2)?;
    said.stderr_contains("status 403 (no, Basic … and …: not allowed)")?
        .hides(PASSWORD)?
        .hides(&auth())
        .map(drop)
}

/// A password whose encoded forms all differ.
const ODD_PASSWORD: &str = "p/a\"s?s \u{f6}+w%41rd&~of the test>";

/// The forms in which a server may repeat the password: raw, in base64 with all alphabets and
/// alignments, in addresses, in JSON, in HTML.
fn written(password: &str) -> Vec<String> {
    use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE};
    let login = format!("{USERNAME}:{password}");
    let escaped = |byte: u8, upper: bool| match byte {
        b'a'..=b'z' | b'0'..=b'9' => char::from(byte).to_string(),
        b' ' if upper => "+".to_owned(),
        _ if upper => format!("%{byte:02X}"),
        _ => format!("%{byte:02x}"),
    };
    let json = json!(password).to_string();
    let in_json = json.trim_matches('"').to_owned();
    let ascii = in_json.replace('\u{f6}', "\\u00f6");
    vec![
        password.to_owned(),
        BASE64_STANDARD.encode(&login),
        BASE64_STANDARD_NO_PAD.encode(&login),
        BASE64_URL_SAFE.encode(&login),
        BASE64_STANDARD.encode(password),
        BASE64_STANDARD.encode(format!("?{password}?")),
        BASE64_STANDARD.encode(format!("??{password}")),
        BASE64_STANDARD.encode(&login).replace('+', "%2B").replace('/', "%2F").replace('=', "%3D"),
        password.bytes().map(|byte| escaped(byte, false)).collect(),
        password.bytes().map(|byte| escaped(byte, true)).collect(),
        in_json.replace('/', "\\/"),
        ascii,
        password.replace('&', "&amp;").replace('"', "&quot;").replace('>', "&gt;"),
    ]
}

/// A push with the odd password. Its error shows neither the secret nor the half that remains when
/// a text is cut.
fn refused_by(faulty: &Faulty, words: &str, secret: &str) -> Outcome<CommandOutput> {
    let user = user_with_password(ODD_PASSWORD)?;
    let half: String = secret.chars().take(secret.chars().count() / 2).collect();
    push(&user, &[&format!("{}/x:1", faulty.name())])?
        .expect(2)?
        .stderr_contains(words)?
        .hides(secret)?
        .hides(&half)
}

fn secrets_that_a_token_server_repeats_are_hidden() -> Outcome {
    let message = |index, form: &str| {
        format!("no: {}{form}", "x".repeat(if index % 2 == 0 { 0 } else { 285 }))
    };
    for (index, form) in written(ODD_PASSWORD).iter().enumerate() {
        let problem = json!({
            "code": "DENIED", "message": message(index, form), "detail": { "request": form },
        });
        refused_with(json!({ "errors": [problem], "request": form }).to_string(), form)?
            .stderr_contains("DENIED: no: ")?;
    }
    for (index, form) in written(ODD_PASSWORD).iter().enumerate() {
        let body = json!({
            "error": "DENIED", "error_description": message(index, form), "request": form,
        });
        refused_with(body.to_string(), form)?.stderr_contains("DENIED: no: ")?;
    }
    let form = &written(ODD_PASSWORD)[1];
    refused_with(format!("what is this? {form}"), form)?.hides("what is this?").map(drop)
}

/// A push that a token server refuses with this body.
fn refused_with(body: String, secret: &str) -> Outcome<CommandOutput> {
    let faulty = Faulty::start(move |asked, operation, _| {
        let realm =
            format!("Bearer realm=\"http://{}/token\"", asked.header("host").unwrap_or_default());
        Some(match operation {
            Operation::Token => Fault::Answer(Answer::new(403).body(body.clone())),
            _ => unauthorized(&realm),
        })
    })?;
    refused_by(&faulty, "status 403", secret)
}

fn encoded_secrets_that_a_registry_repeats_are_hidden() -> Outcome {
    for form in written(ODD_PASSWORD) {
        let repeated = form.clone();
        let faulty = Faulty::start(move |asked, operation, _| {
            let refusal = || Fault::Answer(Answer::new(403).body(format!("no, {repeated}")));
            wants_password(asked).or_else(|| (operation == Operation::BeginUpload).then(refusal))
        })?;
        refused_by(&faulty, "status 403 (no, …", &form)?;
    }
    Ok(())
}
