//! Logins: basic and token authentication of the real registry, from every place where
//! credentials can be.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::{push, unauthorized, user_with_password, utf8};
use crate::lab::{self, envoyless_cases};
use kit::certificates::Authority;
use kit::fake_server::{Answer, Fault};
use kit::prelude::*;
use kit::registry::faulty::{Faulty, Operation, PUSH};
use kit::registry::real::{PASSWORD, Registry, Settings, USERNAME, skopeo_pull};
use kit::registry::tokens::{Accounts, TokenServer};
use kit::user::User;

envoyless_cases! {
    a_password_is_found_in_every_place,
    a_wrong_or_missing_password_is_an_error,
    a_password_gets_a_token,
    an_identity_token_gets_a_token,
    a_token_server_without_post_is_asked_by_get,
    a_token_that_ends_is_renewed_once,
    an_incomplete_login_is_wrong_usage,
    one_login_is_for_one_registry,
    a_token_server_without_tls_gets_nothing,
    a_password_that_a_server_repeats_is_hidden,
}

fn auth() -> String {
    BASE64_STANDARD.encode(format!("{USERNAME}:{PASSWORD}"))
}

fn docker_login(user: &User, registry: &str, entry: Value) -> Outcome {
    user.file(".docker/config.json", json!({ "auths": { registry: entry } }).to_string()).map(drop)
}

/// In the options, the variables and Docker's file; the library's unit tests have the others.
fn a_password_is_found_in_every_place() -> Outcome {
    let registry = Registry::private()?;
    let (name, module) = (registry.name(), lab::module()?);
    let image = |tag: &str| format!("{name}/laststream:{tag}");
    let fine = |user: &User, tag: &str| -> Outcome {
        push(user, &[&image(tag)])?.expect(0)?.hides(PASSWORD)?.hides(&auth()).map(drop)
    };

    let options = ["push", "--module", utf8(&module), "--username", USERNAME];
    let target = image("options");
    let options = [&options[..], &["--password-stdin", &target]].concat();
    User::new()?.run(&options, &format!("{PASSWORD}\n"))?.expect(0)?.hides(PASSWORD)?;
    fine(&user_with_password(PASSWORD)?, "variables")?;
    let user = User::new()?;
    docker_login(&user, &name, json!({ "auth": auth() }))?;
    fine(&user, "docker")?;
    is_pullable(&image("docker"))
}

/// Another client can fetch the image with the password.
fn is_pullable(image: &str) -> Outcome {
    let login = format!("{USERNAME}:{PASSWORD}");
    skopeo_pull(image, &["--src-tls-verify=false", "--src-creds", &login]).map(drop)
}

fn a_wrong_or_missing_password_is_an_error() -> Outcome {
    let user = User::new()?;
    let registry = Registry::private()?;
    let image = registry.image();
    push(&user, &[&image])?
        .expect(2)?
        .stderr_contains("wants credentials: status 401")?
        .stderr_contains("none were found: `docker login localhost:")?;
    let asked = registry.requests();
    ensure_eq!(asked.len(), 1, "anonymous requests in {asked:#?}");
    let wrong = BASE64_STANDARD.encode(format!("{USERNAME}:not-{PASSWORD}"));
    docker_login(&user, &registry.name(), json!({ "auth": wrong }))?;
    let said = push(&user, &[&image])?.expect(2)?;
    said.stderr_contains(".docker/config.json` were refused")?
        .stderr_contains("no tag has changed")?
        .hides(PASSWORD)?
        .hides(&wrong)?;
    let asked = registry.requests();
    ensure_eq!(asked.len(), 3, "requests with the wrong password in {asked:#?}");
    ensure!(!registry.has_tag("laststream", "1"), "a tag is there");
    Ok(())
}

/// A registry that trusts a token server.
fn with_tokens(user: &User, identity: Option<&'static str>) -> Outcome<(Registry, TokenServer)> {
    let tokens = TokenServer::start(Accounts { username: USERNAME, password: PASSWORD, identity })?;
    let certificate = user.file("tokens.pem", &tokens.certificate_pem)?;
    let registry = Registry::start(&Settings {
        auth: Some(tokens.auth(&certificate)),
        ..Settings::default()
    })?;
    Ok((registry, tokens))
}

fn a_password_gets_a_token() -> Outcome {
    let user = User::new()?;
    let (registry, tokens) = with_tokens(&user, None)?;
    let image = format!("{}/team/laststream:1", registry.name());
    push(&user, &[&image])?
        .expect(2)?
        .stderr_contains("no token for `localhost:")?
        .stderr_contains("who are you?")?
        .stderr_contains("none were found")?;
    docker_login(&user, &registry.name(), json!({ "auth": auth() }))?;
    let before = tokens.asked().len();
    push(&user, &[&image, &format!("{}/team/laststream:2", registry.name())])?
        .expect(0)?
        .hides(PASSWORD)?;
    let asked = tokens.asked().split_off(before);
    ensure_eq!(asked.len(), 1, "tokens for one push in {asked:#?}");
    ensure!(
        asked[0].contains("repository:team/laststream:") && asked[0].contains("push"),
        "the scope in {asked:#?}"
    );
    is_pullable(&image)
}

fn an_identity_token_gets_a_token() -> Outcome {
    const IDENTITY: &str = "identity-token-of-the-test/+=";
    let user = User::new()?;
    let (registry, tokens) = with_tokens(&user, Some(IDENTITY))?;
    let entry = json!({ "auth": BASE64_STANDARD.encode("tester:"), "identitytoken": IDENTITY });
    docker_login(&user, &registry.name(), entry)?;
    push(&user, &[&registry.image()])?.expect(0)?.hides(IDENTITY)?;
    ensure!(tokens.asked().iter().all(|asked| asked.starts_with("POST")), "{:#?}", tokens.asked());
    Ok(())
}

fn a_token_server_without_post_is_asked_by_get() -> Outcome {
    let user = User::new()?;
    let (registry, tokens) = with_tokens(&user, None)?;
    let entry = json!({ "username": USERNAME, "identitytoken": PASSWORD });
    docker_login(&user, &registry.name(), entry)?;
    push(&user, &[&registry.image()])?.expect(0)?.hides(PASSWORD)?;
    let methods: Vec<_> = tokens
        .asked()
        .iter()
        .map(|asked| asked.split(' ').next().unwrap_or_default().to_owned())
        .collect();
    ensure_eq!(methods, ["POST", "GET"], "requests for tokens");
    Ok(())
}

/// A token may expire before any operation; an upload then begins anew.
fn a_token_that_ends_is_renewed_once() -> Outcome {
    for operation in PUSH {
        for ever in [false, true] {
            let faulty = tokens_end_in(operation, ever)?;
            let said = push(&User::new()?, &[&faulty.image()])?;
            let said = said.hides("token-number")?;
            let (tokens, tries) = (faulty.count(Operation::Token), faulty.count(operation));
            if ever {
                said.expect(2)?;
                ensure!(faulty.has_no_manifest(), "{operation:?}: something was published");
            } else {
                said.expect(0)?;
                // One token at the beginning, one in the middle, and possibly one for another scope
                // of the manifest.
                ensure!(tokens <= 3, "{operation:?}: {tokens} tokens");
            }
            ensure!(tries <= 4, "{operation:?}: tried {tries} times");
        }
    }
    Ok(())
}

/// A registry that refuses the first token for an operation, or all tokens.
fn tokens_end_in(operation: Operation, ever: bool) -> Outcome<Faulty> {
    Faulty::start(move |asked, now, before| {
        let realm = format!(
            "Bearer realm=\"http://{}/token\",service=\"s\"",
            asked.header("host").unwrap_or_default()
        );
        let refusal = Some(unauthorized(&realm));
        match (now, asked.header("authorization")) {
            (Operation::Token, _) => Some(Fault::Answer(
                Answer::new(200).body(format!(r#"{{"token":"token-number-{before}"}}"#)),
            )),
            (_, None) => refusal,
            (now, Some(_)) if now == operation && ever => refusal,
            // The request for the first blob already has a new token.
            (now, Some("Bearer token-number-0"))
                if now == operation && (operation != Operation::LookForBlob || before > 1) =>
            {
                refusal
            }
            _ => None,
        }
    })
}

fn an_incomplete_login_is_wrong_usage() -> Outcome {
    let mut user = User::new()?;
    push(&user, &["--username", USERNAME, "localhost:1/x:1"])?
        .expect(64)?
        .stderr_contains("--password-stdin")?;
    push(&user, &["--username", USERNAME, "--password-stdin", "localhost:1/x:1"])?
        .expect(64)?
        .stderr_contains("standard input holds no password")?;
    push(&user, &["--password", PASSWORD, "localhost:1/x:1"])?.expect(64)?;
    user.set("LASTSTREAM_REGISTRY_PASSWORD", PASSWORD);
    push(&user, &["localhost:1/x:1"])?
        .expect(64)?
        .stderr_contains("LASTSTREAM_REGISTRY_USERNAME")?
        .hides(PASSWORD)
        .map(drop)
}

fn one_login_is_for_one_registry() -> Outcome {
    let (one, other) = (Faulty::start(|_, _, _| None)?, Faulty::start(|_, _, _| None)?);
    let user = user_with_password(PASSWORD)?;
    push(&user, &[&format!("{}/x:1", one.name()), &format!("{}/x:1", other.name())])?
        .expect(64)?
        .stderr_contains("are for one registry")?;
    ensure!(one.asked().is_empty() && other.asked().is_empty(), "a helper was asked");
    Ok(())
}

fn a_token_server_without_tls_gets_nothing() -> Outcome {
    let (authority, user) = (Authority::new()?, User::new()?);
    let listener = Faulty::start(|_, _, _| None)?;
    let realm = format!("Bearer realm=\"http://{}/token\"", listener.name());
    let tls = Authority::server_config(&authority.server()?)?;
    let faulty = Faulty::start_with(Some(tls), move |_, _, _| Some(unauthorized(&realm)))?;
    docker_login(&user, &faulty.name(), json!({ "auth": auth() }))?;
    let ca = user.file("ca.pem", authority.pem())?;
    let said =
        push(&user, &["--ca-file", utf8(&ca), &format!("{}/x:1", faulty.name())])?.expect(2)?;
    said.stderr_contains("nothing is sent there")?;
    ensure!(listener.asked().is_empty(), "{:#?}", listener.asked());
    Ok(())
}

/// The registry and its token server repeat what they were sent.
fn a_password_that_a_server_repeats_is_hidden() -> Outcome {
    for scheme in ["Basic", "Bearer"] {
        let faulty = Faulty::start(move |asked, operation, _| {
            let host = asked.header("host").unwrap_or_default();
            let challenge = format!("{scheme} realm=\"http://{host}/token\"");
            let is_last = matches!(operation, Operation::BeginUpload | Operation::Token);
            let Some(shown) = asked.header("authorization") else {
                return Some(unauthorized(&challenge));
            };
            let message = format!("no, {shown} and {PASSWORD}");
            let body = json!({ "errors": [{ "code": "DENIED", "message": message }] });
            is_last.then(|| Fault::Answer(Answer::new(403).body(body.to_string())))
        })?;
        push(&user_with_password(PASSWORD)?, &[&format!("{}/x:1", faulty.name())])?
            .expect(2)?
            .stderr_contains("DENIED: no, ")?
            .hides(PASSWORD)?
            .hides(&auth())?;
    }
    Ok(())
}
