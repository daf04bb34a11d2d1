//! Tests of the library, without the program: fetching with checked digests, limits on sizes, and
//! blobs on other hosts.

use laststream_base::progress::Silent;
use laststream_oci::image::{Descriptor, Reference};
use laststream_oci::registry::credentials::{FoundLogin, Login, Secret, Sources};
use laststream_oci::registry::{Options, Registry, RegistryError};

use super::wants_password;
use crate::lab::{self, envoyless_cases};
use kit::fake_server::{Answer, Fault};
use kit::prelude::*;
use kit::registry::faulty::{Faulty, Operation};
use kit::registry::real::{PASSWORD, USERNAME};
use kit::registry::sha256;

envoyless_cases! {
    wrong_bytes_are_refused,
    blobs_elsewhere_are_fetched_without_credentials,
}

fn options() -> Options {
    let mut options = Options { proxy_from_env: false, ..Options::default() };
    options.retry.further = 1;
    options.retry.pause = std::time::Duration::from_millis(10);
    options
}

fn login() -> Sources {
    let login = Login::Password { username: USERNAME.to_owned(), password: Secret::new(PASSWORD) };
    Sources { given: Some(FoundLogin { login, source: "the test".to_owned() }), ..Sources::none() }
}

fn reference(text: &str) -> Outcome<Reference> {
    Ok(text.parse::<Reference>()?)
}

const MANIFEST: &[u8] = br#"{"schemaVersion":2}"#;

fn wrong_bytes_are_refused() -> Outcome {
    let faulty = Faulty::start(|asked, operation, _| match (operation, asked.path()) {
        (Operation::GetBlob, _) => Some(Fault::Answer(Answer::new(200).body("hellO"))),
        (Operation::GetManifest, "/v2/a/manifests/lie") => {
            Some(Fault::Header("docker-content-digest", sha256(b"lie")))
        }
        (Operation::GetManifest, "/v2/a/manifests/huge") => {
            Some(Fault::Answer(Answer::new(200).body(vec![b' '; 5 << 20])))
        }
        _ => None,
    })?;
    faulty.put("/v2/a/manifests/lie", MANIFEST);
    let pinned = format!("{}/a@{}", faulty.name(), sha256(b"another"));
    faulty.put(&format!("/v2/a/manifests/{}", sha256(b"another")), MANIFEST);
    let (options, sources) = (options(), Sources::none());
    let registry = Registry::new(&faulty.name(), &options, &sources, &Silent)?;
    let error = |outcome: Result<(), RegistryError>| {
        outcome.err().map(|error| error.to_string()).context("it was taken")
    };
    let blob = Descriptor::of("x", b"hello");
    let lie = reference(&format!("{}/a:lie", faulty.name()))?;
    for (error, says) in [
        (error(registry.blob(&lie, &blob, 100).map(drop))?, sha256(b"hellO")),
        (
            error(registry.blob(&lie, &Descriptor { size: 2, ..blob }, 100).map(drop))?,
            "larger than".to_owned(),
        ),
        (error(registry.manifest(&lie).map(drop))?, sha256(b"lie")),
        (error(registry.manifest(&reference(&pinned)?).map(drop))?, sha256(MANIFEST)),
        (
            error(registry.manifest(&reference(&format!("{}/a:huge", faulty.name()))?).map(drop))?,
            "larger than".to_owned(),
        ),
    ] {
        ensure!(error.contains(&says), "`{says}` is not in {error}");
    }
    Ok(())
}

fn blobs_elsewhere_are_fetched_without_credentials() -> Outcome {
    let storage = Faulty::start(|_, _, _| None)?;
    let elsewhere = storage.name();
    let module = std::fs::read(lab::module()?)?;
    storage.put("a blob", &module);
    let faulty = Faulty::start(move |asked, operation, before| {
        let to = format!("http://{elsewhere}{}?signature=s", asked.path());
        wants_password(asked).or_else(|| match operation {
            // The first try with credentials is cut, because fetching must be retried, too.
            Operation::GetBlob if before == 1 => Some(Fault::Cut),
            Operation::GetBlob => Some(Fault::Answer(Answer::new(307).with("location", to))),
            _ => None,
        })
    })?;
    let (options, sources) = (options(), login());
    let registry = Registry::new(&faulty.name(), &options, &sources, &Silent)?;
    let image = reference(&format!("{}/a:1", faulty.name()))?;
    let blob =
        registry.blob(&image, &Descriptor::of("x", &module), 1 << 20).map_err(kit::Error::msg)?;
    ensure!(blob == module, "other bytes");
    let asked = storage.asked();
    ensure_eq!(asked.len(), 1, "requests elsewhere");
    ensure_eq!(asked[0].1.header("authorization"), None, "credentials elsewhere");
    Ok(())
}
