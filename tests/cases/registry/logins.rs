//! Logins: basic and token authentication of the real registry, from every place where
//! credentials can be.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::{HTPASSWD, PASSWORD, USERNAME, push, utf8};
use crate::lab::{self, EnvoylessCase, envoyless};
use kit::command::CommandOutput;
use kit::fake_server::{Answer, Fault};
use kit::prelude::*;
use kit::registry::faulty::{Faulty, Phase};
use kit::registry::real::{Registry, Settings, skopeo_pull};
use kit::registry::tokens::{Accounts, TokenServer};
use kit::user::User;

pub(super) fn cases() -> Vec<EnvoylessCase> {
    vec![
        envoyless!(a_password_from_everywhere),
        envoyless!(a_wrong_password_or_none),
        envoyless!(a_token_for_a_password),
        envoyless!(a_token_for_an_identity_token),
        envoyless!(a_token_server_that_knows_no_post),
        envoyless!(a_token_that_ends_is_renewed_once),
        envoyless!(half_a_login_is_wrong_usage),
        envoyless!(one_login_is_for_one_registry),
        envoyless!(nobody_s_secrets_are_repeated),
        envoyless!(a_token_server_that_repeats_the_request),
        envoyless!(a_registry_that_repeats_secrets_in_other_forms),
        envoyless!(a_token_server_without_tls_gets_nothing),
    ]
}

fn auth() -> String {
    BASE64_STANDARD.encode(format!("{USERNAME}:{PASSWORD}"))
}

/// A registry that wants a user and a password.
fn with_password(user: &User) -> Outcome<Registry> {
    let file = user.file("htpasswd", HTPASSWD)?;
    Registry::start(&Settings {
        auth: Some(json!({ "htpasswd": { "realm": "test", "path": file } })),
        ..Settings::default()
    })
}

fn a_password_from_everywhere() -> Outcome {
    let keeper = User::new()?;
    let registry = with_password(&keeper)?;
    let (name, module) = (registry.name(), lab::module()?);
    let image = |tag: &str| format!("{name}/laststream:{tag}");
    let fine = |user: &User, tag: &str| -> Outcome {
        push(user, &[&image(tag)])?.expect(0)?.hides(PASSWORD)?.hides(&auth()).map(drop)
    };

    let options = [
        "push",
        "--module",
        utf8(&module),
        "--username",
        USERNAME,
        "--password-stdin",
        &image("options"),
    ];
    User::new()?.run(&options, &format!("{PASSWORD}\n"))?.expect(0)?.hides(PASSWORD)?;

    let mut user = User::new()?;
    user.set("LASTSTREAM_REGISTRY_USERNAME", USERNAME);
    user.set("LASTSTREAM_REGISTRY_PASSWORD", PASSWORD);
    fine(&user, "variables")?;

    let user = User::new()?;
    user.file(
        ".docker/config.json",
        json!({ "auths": { &name: { "auth": auth() } } }).to_string(),
    )?;
    fine(&user, "docker")?;

    let mut user = User::new()?;
    user.file("elsewhere/config.json", json!({ "credHelpers": { &name: "test" } }).to_string())?;
    user.set("DOCKER_CONFIG", user.path("elsewhere"));
    let answer = json!({ "ServerURL": name, "Username": USERNAME, "Secret": PASSWORD });
    user.program(
        "docker-credential-test",
        &format!(
            "[ \"$1\" = get ] && read -r server && [ \"$server\" = {name} ] && echo '{answer}'"
        ),
    )?;
    fine(&user, "helper")?;

    let mut user = User::new()?;
    user.file(
        "run/containers/auth.json",
        json!({ "auths": { format!("{name}/laststream"): { "auth": auth() } } }).to_string(),
    )?;
    user.set("XDG_RUNTIME_DIR", user.path("run"));
    fine(&user, "podman")?;

    skopeo_pull(
        &image("podman"),
        &["--src-tls-verify=false", "--src-creds", &format!("{USERNAME}:{PASSWORD}")],
    )
    .map(drop)
}

fn a_wrong_password_or_none() -> Outcome {
    let user = User::new()?;
    let registry = with_password(&user)?;
    let image = format!("{}/laststream:1", registry.name());
    push(&user, &[&image])?
        .expect(2)?
        .stderr_contains("wants credentials: status 401")?
        .stderr_contains("none were found: `docker login localhost:")?;
    ensure_eq!(registry.requests().len(), 1, "anonymous requests in {:#?}", registry.requests());
    let wrong = BASE64_STANDARD.encode(format!("{USERNAME}:not-{PASSWORD}"));
    user.file(
        ".docker/config.json",
        json!({ "auths": { registry.name(): { "auth": wrong } } }).to_string(),
    )?;
    let said = push(&user, &[&image])?.expect(2)?;
    said.stderr_contains(".docker/config.json` were shown")?
        .stderr_contains("no tag has changed")?
        .hides(PASSWORD)?
        .hides(&wrong)?;
    ensure_eq!(
        registry.requests().len(),
        3,
        "requests with the wrong password in {:#?}",
        registry.requests()
    );
    ensure!(!registry.has_tag("laststream", "1"), "a tag is there");
    Ok(())
}

/// A registry that believes a token server.
fn with_tokens(user: &User, identity: Option<&'static str>) -> Outcome<(Registry, TokenServer)> {
    let tokens = TokenServer::start(Accounts { username: USERNAME, password: PASSWORD, identity })?;
    let certificate = user.file("tokens.pem", &tokens.certificate_pem)?;
    let registry = Registry::start(&Settings {
        auth: Some(tokens.auth(&certificate)),
        ..Settings::default()
    })?;
    Ok((registry, tokens))
}

fn a_token_for_a_password() -> Outcome {
    let user = User::new()?;
    let (registry, tokens) = with_tokens(&user, None)?;
    let image = format!("{}/team/laststream:1", registry.name());
    push(&user, &[&image])?
        .expect(2)?
        .stderr_contains("no token for `localhost:")?
        .stderr_contains("who are you?")?
        .stderr_contains("none were found")?;
    user.file(
        ".docker/config.json",
        json!({ "auths": { registry.name(): { "auth": auth() } } }).to_string(),
    )?;
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
    skopeo_pull(
        &image,
        &["--src-tls-verify=false", "--src-creds", &format!("{USERNAME}:{PASSWORD}")],
    )?;
    // Two repositories: the second takes from the first, and needs a token for both.
    push(&user, &[&image, &format!("{}/other:1", registry.name())])?
        .expect(0)?
        .stderr_contains("taken over from another repository")
        .map(drop)
}

fn a_token_for_an_identity_token() -> Outcome {
    const IDENTITY: &str = "identity-token-of-the-test/+=";
    let user = User::new()?;
    let (registry, tokens) = with_tokens(&user, Some(IDENTITY))?;
    let entry = json!({ "auth": BASE64_STANDARD.encode("tester:"), "identitytoken": IDENTITY });
    user.file(".docker/config.json", json!({ "auths": { registry.name(): entry } }).to_string())?;
    push(&user, &[&format!("{}/laststream:1", registry.name())])?.expect(0)?.hides(IDENTITY)?;
    ensure!(tokens.asked().iter().all(|asked| asked.starts_with("POST")), "{:#?}", tokens.asked());
    Ok(())
}

fn a_token_server_that_knows_no_post() -> Outcome {
    let user = User::new()?;
    let (registry, tokens) = with_tokens(&user, None)?;
    let entry = json!({ "username": USERNAME, "identitytoken": PASSWORD });
    user.file(".docker/config.json", json!({ "auths": { registry.name(): entry } }).to_string())?;
    push(&user, &[&format!("{}/laststream:1", registry.name())])?.expect(0)?.hides(PASSWORD)?;
    let methods: Vec<_> = tokens
        .asked()
        .iter()
        .map(|asked| asked.split(' ').next().unwrap_or_default().to_owned())
        .collect();
    ensure_eq!(methods, ["POST", "GET"], "requests for tokens");
    Ok(())
}

/// In any phase; an upload begins anew then.
fn a_token_that_ends_is_renewed_once() -> Outcome {
    for phase in [Phase::LookForBlob, Phase::BeginUpload, Phase::Upload, Phase::PutManifest] {
        for ever in [false, true] {
            let faulty = tokens_end_in(phase, ever)?;
            let said = push(&User::new()?, &[&format!("{}/laststream:1", faulty.name())])?;
            let said = said.hides("token-number")?;
            if ever {
                said.expect(2)?;
                ensure!(faulty.has_no_manifest(), "{phase:?}: something was published");
            } else {
                said.expect(0)?;
                // One at the beginning, one in the middle; the manifest's scope may be another,
                // with a token of its own.
                ensure!(
                    faulty.count(Phase::Token) <= 3,
                    "{phase:?}: {} tokens",
                    faulty.count(Phase::Token)
                );
            }
            ensure!(faulty.count(phase) <= 4, "{phase:?}: tried {} times", faulty.count(phase));
        }
    }
    Ok(())
}

/// The first token is refused in a phase, or all are.
fn tokens_end_in(phase: Phase, ever: bool) -> Outcome<Faulty> {
    Faulty::start(move |asked, now, before| {
        let realm = format!(
            "Bearer realm=\"http://{}/token\",service=\"s\"",
            asked.header("host").unwrap_or_default()
        );
        let refusal = Some(Fault::Answer(Answer::new(401).with("www-authenticate", realm)));
        match (now, asked.header("authorization")) {
            (Phase::Token, _) => Some(Fault::Answer(
                Answer::new(200).body(format!(r#"{{"token":"token-number-{before}"}}"#)),
            )),
            (_, None) => refusal,
            (now, Some(_)) if now == phase && ever => refusal,
            // The first blob is looked for with a token that is new.
            (now, Some("Bearer token-number-0"))
                if now == phase && (phase != Phase::LookForBlob || before > 1) =>
            {
                refusal
            }
            _ => None,
        }
    })
}

fn half_a_login_is_wrong_usage() -> Outcome {
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
    let (one, other, mut user) =
        (Faulty::start(|_, _, _| None)?, Faulty::start(|_, _, _| None)?, User::new()?);
    user.set("LASTSTREAM_REGISTRY_USERNAME", USERNAME);
    user.set("LASTSTREAM_REGISTRY_PASSWORD", PASSWORD);
    push(&user, &[&format!("{}/x:1", one.name()), &format!("{}/x:1", other.name())])?
        .expect(64)?
        .stderr_contains("are for one registry")?;
    ensure!(one.asked().is_empty() && other.asked().is_empty(), "a helper was asked");
    Ok(())
}

/// Some servers repeat what they were sent.
fn nobody_s_secrets_are_repeated() -> Outcome {
    let faulty = Faulty::start(|asked, phase, _| match (asked.header("authorization"), phase) {
        (None, _) => {
            Some(Fault::Answer(Answer::new(401).with("www-authenticate", "Basic realm=\"r\"")))
        }
        (Some(shown), Phase::BeginUpload) => Some(Fault::Answer(
            Answer::new(403).body(format!("no, {shown} and {PASSWORD}: not allowed")),
        )),
        _ => None,
    })?;
    let mut user = User::new()?;
    user.set("LASTSTREAM_REGISTRY_USERNAME", USERNAME);
    user.set("LASTSTREAM_REGISTRY_PASSWORD", PASSWORD);
    let said = push(&user, &[&format!("{}/x:1", faulty.name())])?.expect(2)?;
    said.stderr_contains("status 403 (no, Basic … and …: not allowed)")?
        .hides(PASSWORD)?
        .hides(&auth())
        .map(drop)
}

/// Every form of it is another text.
const ODD_PASSWORD: &str = "p/a\"s?s \u{f6}+w%41rd&~of the test>";

/// How others write it: raw, in base64 with all alphabets and alignments, in addresses, in JSON, in
/// HTML.
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

/// A push with the odd password. The refusal shows neither the secret nor what a cut leaves of it.
fn refused_by(faulty: &Faulty, words: &str, secret: &str) -> Outcome<CommandOutput> {
    let mut user = User::new()?;
    user.set("LASTSTREAM_REGISTRY_USERNAME", USERNAME);
    user.set("LASTSTREAM_REGISTRY_PASSWORD", ODD_PASSWORD);
    let half: String = secret.chars().take(secret.chars().count() / 2).collect();
    push(&user, &[&format!("{}/x:1", faulty.name())])?
        .expect(2)?
        .stderr_contains(words)?
        .hides(secret)?
        .hides(&half)
}

fn a_token_server_that_repeats_the_request() -> Outcome {
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

/// By a token server, which says this.
fn refused_with(body: String, secret: &str) -> Outcome<CommandOutput> {
    let faulty = Faulty::start(move |asked, phase, _| {
        let realm =
            format!("Bearer realm=\"http://{}/token\"", asked.header("host").unwrap_or_default());
        Some(Fault::Answer(match phase {
            Phase::Token => Answer::new(403).body(body.clone()),
            _ => Answer::new(401).with("www-authenticate", realm),
        }))
    })?;
    refused_by(&faulty, "status 403", secret)
}

fn a_registry_that_repeats_secrets_in_other_forms() -> Outcome {
    for form in written(ODD_PASSWORD) {
        let repeated = form.clone();
        let faulty =
            Faulty::start(move |asked, phase, _| match (asked.header("authorization"), phase) {
                (None, _) => Some(Fault::Answer(
                    Answer::new(401).with("www-authenticate", "Basic realm=\"r\""),
                )),
                (Some(_), Phase::BeginUpload) => {
                    Some(Fault::Answer(Answer::new(403).body(format!("no, {repeated}"))))
                }
                _ => None,
            })?;
        refused_by(&faulty, "status 403 (no, …", &form)?;
    }
    Ok(())
}

fn a_token_server_without_tls_gets_nothing() -> Outcome {
    use kit::certificates::Authority;
    let (authority, user, listener) =
        (Authority::new()?, User::new()?, Faulty::start(|_, _, _| None)?);
    let realm = format!("Bearer realm=\"http://{}/token\"", listener.name());
    let tls = Authority::server_config(&authority.server()?)?;
    let faulty = Faulty::start_with(Some(tls), move |_, _, _| {
        Some(Fault::Answer(Answer::new(401).with("www-authenticate", realm.clone())))
    })?;
    user.file(
        ".docker/config.json",
        json!({ "auths": { faulty.name(): { "auth": auth() } } }).to_string(),
    )?;
    let ca = user.file("ca.pem", authority.pem())?;
    let said =
        push(&user, &["--ca-file", utf8(&ca), &format!("{}/x:1", faulty.name())])?.expect(2)?;
    said.stderr_contains("nothing is sent there")?;
    ensure!(listener.asked().is_empty(), "{:#?}", listener.asked());
    Ok(())
}
