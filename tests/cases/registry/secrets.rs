//! Servers that repeat what they were sent: no output of the program shows a secret.

use super::logins::auth;
use super::{PASSWORD, push, unauthorized, user_with_password, wants_password};
use crate::lab::envoyless_cases;
use kit::fake_server::{Answer, Fault};
use kit::prelude::*;
use kit::registry::faulty::{Faulty, Operation};

envoyless_cases! {
    a_password_that_a_registry_repeats_is_hidden,
    a_secret_that_a_token_server_repeats_is_hidden,
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

fn a_secret_that_a_token_server_repeats_is_hidden() -> Outcome {
    let form = auth();
    let problem = json!({ "code": "DENIED", "message": format!("no: {form} {PASSWORD}") });
    let body = json!({ "errors": [problem], "request": form }).to_string();
    let faulty = Faulty::start(move |asked, operation, _| {
        let realm =
            format!("Bearer realm=\"http://{}/token\"", asked.header("host").unwrap_or_default());
        Some(match operation {
            Operation::Token => Fault::Answer(Answer::new(403).body(body.clone())),
            _ => unauthorized(&realm),
        })
    })?;
    push(&user_with_password(PASSWORD)?, &[&format!("{}/x:1", faulty.name())])?
        .expect(2)?
        .stderr_contains("DENIED: no: ")?
        .hides(PASSWORD)?
        .hides(&auth())
        .map(drop)
}
