//! TLS with a private authority, and clients with certificates.

use serde_json::json;

use super::{push, utf8};
use crate::lab::envoyless_cases;
use kit::certificates::{Authority, self_signed};
use kit::registry::real::{Registry, Settings, skopeo_pull};
use kit::user::User;
use kit::{Outcome, ensure_eq};

envoyless_cases! {
    a_private_authority_is_trusted_if_it_is_named,
    a_self_signed_certificate_is_trusted_if_it_is_no_authority,
    a_client_shows_its_certificate,
    files_without_certificates_are_errors,
}

fn a_private_authority_is_trusted_if_it_is_named() -> Outcome {
    let (authority, user) = (Authority::new()?, User::new()?);
    let server = authority.server()?;
    let ca = user.file("certs/ca.crt", authority.pem())?;
    let tls = json!({
        "certificate": user.file("cert.pem", &server.certificate_pem)?,
        "key": user.file("key.pem", &server.key_pem)?,
    });
    let registry = Registry::start(&Settings { tls: Some(tls), ..Settings::default() })?;
    let image = registry.image();
    let said = push(&user, &["-o", "json", "--ca-file", utf8(&ca), &image])?.expect(0)?;
    let (digest, _) = skopeo_pull(&image, &["--src-cert-dir", utf8(&user.path("certs"))])?;
    ensure_eq!(said.json_lines()?[0]["digest"], digest, "the digest");
    push(&user, &["--insecure", &image])?.expect(0)?;
    // A wrong authority and missing TLS each have their own error.
    let other = user.file("other.crt", Authority::new()?.pem())?;
    push(&user, &["--ca-file", utf8(&other), &image])?
        .expect(2)?
        .stderr_contains("invalid peer certificate")?
        .stderr_contains("--ca-file FILE")?;
    push(&user, &[&image])?
        .expect(2)?
        .stderr_contains("status 400")?
        .stderr_contains("HTTP request to an HTTPS server")?
        .stderr_contains("if it speaks TLS, leave `--plain-http` off")?;
    let plain = Registry::start(&Settings::default())?;
    let said = push(&user, &["--ca-file", utf8(&ca), &plain.image()])?.expect(2)?;
    said.stderr_contains("TLS:")?.stderr_contains("`--plain-http`").map(drop)
}

fn a_self_signed_certificate_is_trusted_if_it_is_no_authority() -> Outcome {
    let user = User::new()?;
    for is_authority in [false, true] {
        let (certificate, key) = self_signed(is_authority)?;
        let certificate = user.file("self.pem", certificate)?;
        let tls = json!({ "certificate": &certificate, "key": user.file("self.key", key)? });
        let registry = Registry::start(&Settings { tls: Some(tls), ..Settings::default() })?;
        let said = push(&user, &["--ca-file", utf8(&certificate), &registry.image()])?;
        match is_authority {
            false => said.expect(0)?,
            true => said
                .expect(2)?
                .stderr_contains("the certificate of an authority (`CA:TRUE`)")?
                .stderr_contains("CA:FALSE")?,
        };
    }
    Ok(())
}

fn a_client_shows_its_certificate() -> Outcome {
    let (authority, user) = (Authority::new()?, User::new()?);
    let (server, client) = (authority.server()?, authority.client("spiffe://mesh.test/publisher")?);
    let ca = user.file("ca.pem", authority.pem())?;
    let tls = json!({
        "certificate": user.file("cert.pem", &server.certificate_pem)?,
        "key": user.file("key.pem", &server.key_pem)?, "clientcas": [&ca],
    });
    let registry = Registry::start(&Settings { tls: Some(tls), ..Settings::default() })?;
    let image = registry.image();
    let (cert, key) = (
        user.file("client.pem", &client.certificate_pem)?,
        user.file("client-key.pem", &client.key_pem)?,
    );
    push(&user, &["--ca-file", utf8(&ca), "--cert", utf8(&cert), "--key", utf8(&key), &image])?
        .expect(0)?;
    push(&user, &["--ca-file", utf8(&ca), "--retries", "0", &image])?.expect(2)?;
    push(&user, &["--ca-file", utf8(&ca), "--cert", utf8(&cert), &image])?
        .expect(64)?
        .stderr_contains("--key")
        .map(drop)
}

fn files_without_certificates_are_errors() -> Outcome {
    let user = User::new()?;
    let (empty, authority) = (user.file("empty.pem", "nothing\n")?, Authority::new()?);
    let cert = user.file("cert.pem", authority.pem())?;
    let missing = user.path("missing.pem");
    for (arguments, says) in [
        (
            vec!["--ca-file", utf8(&empty)],
            "as a certificate authority: it holds no certificate in PEM",
        ),
        (
            vec!["--ca-file", utf8(&missing)],
            "missing.pem` as a certificate authority: No such file",
        ),
        (
            vec!["--cert", utf8(&cert), "--key", utf8(&cert)],
            "as the key of a client certificate: it holds no private key in PEM",
        ),
        (vec!["--cert", utf8(&empty), "--key", utf8(&empty)], "empty.pem` as"),
    ] {
        push(&user, &[&arguments[..], &["localhost:1/x:1"]].concat())?
            .expect(2)?
            .stderr_contains(says)?;
    }
    Ok(())
}
