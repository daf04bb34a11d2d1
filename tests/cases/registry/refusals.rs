//! Redirects that a push does not follow: no credentials go to other hosts, nothing goes from TLS
//! to plain HTTP, no manifest goes to another host.

use std::sync::{Arc, OnceLock};

use super::{push, user_with_password, utf8, wants_password};
use crate::lab::envoyless_cases;
use kit::certificates::Authority;
use kit::fake_server::{Answer, Asked, Fault};
use kit::prelude::*;
use kit::registry::faulty::{Faulty, Operation, PUSH};
use kit::registry::real::PASSWORD;
use kit::user::User;

envoyless_cases! {
    an_upload_elsewhere_gets_no_credentials,
    a_redirect_elsewhere_gets_no_credentials,
    a_redirect_back_to_the_registry_gets_no_credentials,
    a_redirect_to_the_same_registry_keeps_credentials,
    redirects_from_tls_to_plain_http_are_refused,
    a_redirect_of_a_manifest_to_another_host_is_refused,
    redirects_are_limited,
    an_invalid_module_is_not_published,
}

fn user() -> Outcome<User> {
    user_with_password(PASSWORD)
}

fn redirect(status: u16, to: String) -> Fault {
    Fault::Answer(Answer::new(status).with("location", to))
}

fn an_upload_elsewhere_gets_no_credentials() -> Outcome {
    let storage = Faulty::start(|_, _, _| None)?;
    let elsewhere = storage.name();
    let faulty = Faulty::start(move |asked, operation, _| {
        let to = format!("http://{elsewhere}/v2/x/blobs/uploads/1?signature=of-the-test");
        wants_password(asked).or_else(|| match operation {
            Operation::BeginUpload => Some(redirect(202, to)),
            Operation::PutManifest => Some(Fault::Answer(Answer::new(201))),
            _ => None,
        })
    })?;
    let said = push(&user()?, &[&faulty.image()])?;
    // Both blobs go into the same session there, so the second is refused. The check below needs
    // only the first.
    said.expect(2)?.hides("of-the-test")?;
    let asked = asked_without_credentials(&storage)?;
    let (operation, first) = asked.first().context("no request went elsewhere")?;
    ensure_eq!(*operation, Operation::Upload, "the first request elsewhere");
    ensure!(
        first.parameter("signature") == Some("of-the-test") && first.parameter("digest").is_some(),
        "{asked:#?}"
    );
    Ok(())
}

/// The requests to a server that must get no credentials.
fn asked_without_credentials(server: &Faulty) -> Outcome<Vec<(Operation, Asked)>> {
    let asked = server.asked();
    let is_free = asked.iter().all(|(_, asked)| asked.header("authorization").is_none());
    ensure!(is_free, "credentials went elsewhere: {asked:#?}");
    Ok(asked)
}

fn a_redirect_elsewhere_gets_no_credentials() -> Outcome {
    for status in [301, 302, 303, 307, 308] {
        let storage = Faulty::start(|_, _, _| None)?;
        let elsewhere = storage.name();
        let faulty = Faulty::start(move |asked, operation, _| {
            let to = format!("http://{elsewhere}{}", asked.target);
            let leads_away = operation == Operation::LookForBlob;
            wants_password(asked).or_else(|| leads_away.then(|| redirect(status, to)))
        })?;
        push(&user()?, &[&faulty.image()])?.expect(0)?;
        let asked = asked_without_credentials(&storage).with_context(|| format!("{status}"))?;
        ensure_eq!(asked.len(), 2, "{status}: requests elsewhere in {asked:#?}");
    }
    Ok(())
}

/// Otherwise another host could make requests in the user's name.
fn a_redirect_back_to_the_registry_gets_no_credentials() -> Outcome {
    let home = Arc::<OnceLock<String>>::default();
    let back = home.clone();
    let elsewhere = Faulty::start(move |_, _, _| {
        let home = back.get()?;
        Some(redirect(307, format!("http://{home}/v2/victim/manifests/latest")))
    })?;
    let away = elsewhere.name();
    let faulty = Faulty::start(move |asked, operation, _| {
        let leads_away = operation == Operation::Upload;
        wants_password(asked)
            .or_else(|| leads_away.then(|| redirect(307, format!("http://{away}{}", asked.target))))
    })?;
    home.get_or_init(|| faulty.name());
    push(&user()?, &[&faulty.image()])?.expect(2)?;
    let asked = faulty.asked();
    let led: Vec<_> = asked.iter().filter(|(_, asked)| asked.path().contains("victim")).collect();
    ensure_eq!(led.len(), 1, "requests to the other host in {asked:#?}");
    ensure_eq!(led[0].1.header("authorization"), None, "credentials for them");
    Ok(())
}

/// Also for requests with a body.
fn a_redirect_to_the_same_registry_keeps_credentials() -> Outcome {
    // Not the upload: the request that is redirected already uses its session, which can be used
    // only once.
    let faulty = Faulty::start(|asked, operation, _| {
        let moved = !matches!(operation, Operation::Upload) && !asked.target.contains("moved");
        let separator = if asked.target.contains('?') { '&' } else { '?' };
        wants_password(asked)
            .or_else(|| moved.then(|| redirect(307, format!("{}{separator}moved=1", asked.target))))
    })?;
    push(&user()?, &[&faulty.image()])?.expect(0)?;
    faulty.manifest("laststream", "1").context("nothing was published").map(drop)
}

fn redirects_from_tls_to_plain_http_are_refused() -> Outcome {
    let authority = Authority::new()?;
    let identity = authority.server()?;
    for operation in PUSH {
        let plain = Faulty::start(|_, _, _| None)?;
        let (elsewhere, user) = (plain.name(), user()?);
        let faulty = Faulty::start_with(
            Some(Authority::server_config(&identity)?),
            move |asked, now, _| {
                let to = format!("http://{elsewhere}{}", asked.target);
                // 202 is no redirect, but its `location` is the address for the upload. It begins
                // with `http:` if a proxy hides TLS from the registry.
                let status = if now == Operation::BeginUpload { 202 } else { 307 };
                wants_password(asked).or_else(|| (now == operation).then(|| redirect(status, to)))
            },
        )?;
        let ca = user.file("ca.pem", authority.pem())?;
        let said = push(&user, &["--ca-file", utf8(&ca), &faulty.image()])?.expect(2)?;
        said.stderr_contains("which is not followed: it leads from https to http")?
            .stderr_contains("no tag has changed")?
            .hides(PASSWORD)?;
        ensure!(plain.asked().is_empty(), "{operation:?}: {:#?}", plain.asked());
        ensure!(faulty.has_no_manifest(), "{operation:?}: something was published");
    }
    Ok(())
}

fn a_redirect_of_a_manifest_to_another_host_is_refused() -> Outcome {
    let other = Faulty::start(|_, _, _| None)?;
    let elsewhere = other.name();
    let faulty = Faulty::start(move |asked, operation, _| {
        (operation == Operation::PutManifest)
            .then(|| redirect(307, format!("http://{elsewhere}{}", asked.target)))
    })?;
    push(&User::new()?, &[&faulty.image()])?
        .expect(2)?
        .stderr_contains("only blobs may be elsewhere")?;
    ensure!(other.asked().is_empty(), "{:#?}", other.asked());
    Ok(())
}

fn redirects_are_limited() -> Outcome {
    let faulty = Faulty::start(|asked, operation, _| {
        (operation == Operation::LookForBlob).then(|| redirect(302, asked.target.clone()))
    })?;
    push(&User::new()?, &[&faulty.image()])?.expect(2)?.stderr_contains("more than 5 redirects")?;
    ensure_eq!(faulty.count(Operation::LookForBlob), 6, "requests");
    let faulty = Faulty::start(|asked, operation, _| {
        (operation == Operation::BeginUpload).then(|| redirect(302, asked.target.clone()))
    })?;
    push(&User::new()?, &[&faulty.image()])?.expect(2)?.stderr_contains("turns it into a GET")?;
    let faulty = Faulty::failing(Operation::BeginUpload, Fault::Answer(Answer::new(202)))?;
    push(&User::new()?, &[&faulty.image()])?
        .expect(2)?
        .stderr_contains("does not say where to upload to")
        .map(drop)
}

fn an_invalid_module_is_not_published() -> Outcome {
    let (faulty, user) = (Faulty::start(|_, _, _| None)?, User::new()?);
    let image = format!("{}/x:1", faulty.name());
    let text = user.file("text.wasm", json!({ "not": "wasm" }).to_string())?;
    user.run(&["push", "--module", utf8(&text), &image], "")?
        .expect(1)?
        .stderr_contains("is not WebAssembly")?;
    // The shortest valid module.
    let useless = user.file("useless.wasm", b"\0asm\x01\0\0\0")?;
    user.run(&["push", "--module", utf8(&useless), &image], "")?
        .expect(1)?
        .stderr_contains("is no module for proxies")?;
    user.run(&["push", "--module", "missing.wasm", &image], "")?
        .expect(2)?
        .stderr_contains("cannot read `missing.wasm`")?;
    ensure!(faulty.asked().is_empty(), "{:#?}", faulty.asked());
    Ok(())
}
