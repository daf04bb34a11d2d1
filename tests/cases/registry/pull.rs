//! Tests of the library, without the program: fetching with checked digests, limits
//! on sizes and blobs on other hosts; and uploads that are larger than any real module.

use laststream_base::digest::Digest;
use laststream_base::progress::Silent;
use laststream_oci::image::{Descriptor, Image, Manifest, Reference};
use laststream_oci::registry::credentials::{FoundLogin, Login, Secret, Sources};
use laststream_oci::registry::{Options, Registries, Registry, RegistryError};

use super::{PASSWORD, USERNAME, push, registry_with_password, user_with_password, wants_password};
use crate::lab::{self, envoyless_cases};
use kit::fake_server::{Answer, Fault};
use kit::prelude::*;
use kit::registry::faulty::{Faulty, Operation};
use kit::registry::sha256;

envoyless_cases! {
    a_pushed_image_is_fetched,
    wrong_bytes_are_refused,
    a_large_upload_that_is_cut_begins_anew,
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

fn a_pushed_image_is_fetched() -> Outcome {
    let user = user_with_password(PASSWORD)?;
    let real = registry_with_password(&user)?;
    let image = format!("{}/team/laststream:1", real.name());
    let digest = push(&user, &["-o", "json", &image])?.expect(0)?.json_lines()?[0]["digest"]
        .as_str()
        .context("a digest")?
        .to_owned();

    let (options, sources) = (options(), login());
    let registry = Registry::new(&real.name(), &options, &sources, &Silent)?;
    let tagged = reference(&image)?;
    let fetched = registry.manifest(&tagged)?;
    ensure_eq!(fetched.digest.as_str(), digest, "the digest");
    let kind = Some("application/vnd.oci.image.manifest.v1+json");
    ensure_eq!(fetched.media_type.as_deref(), kind, "the kind");
    let pinned = Reference { digest: Some(fetched.digest.clone()), ..tagged.clone() };
    ensure_eq!(registry.manifest(&pinned)?, fetched, "the pinned one");
    let manifest: Manifest = serde_json::from_slice(&fetched.bytes)?;
    let layer = registry.blob(&pinned, &manifest.layers[0], 1 << 20)?;
    ensure_eq!(Digest::of(&layer), manifest.layers[0].digest, "the layer");
    fails_with(
        registry.blob(&pinned, &manifest.layers[0], 100),
        &["more than 100 are not fetched"],
    )?;

    let missing = reference(&format!("{}/team/laststream:2", real.name()))?;
    fails_with(registry.manifest(&missing), &["status 404", "MANIFEST_UNKNOWN"])?;
    let anonymous = Sources::none();
    let error = Registry::new(&real.name(), &options, &anonymous, &Silent)?.manifest(&tagged);
    ensure!(matches!(error, Err(RegistryError::Unauthorized { .. })), "{error:?}");
    Ok(())
}

fn fails_with<T>(result: Result<T, RegistryError>, words: &[&str]) -> Outcome {
    let error = result.err().context("an error")?.to_string();
    ensure!(words.iter().all(|words| error.contains(words)), "{error}");
    Ok(())
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

/// The upload is larger than any buffer, so the connection ends while bytes are being sent.
fn a_large_upload_that_is_cut_begins_anew() -> Outcome {
    let mut noise = fastrand::Rng::with_seed(7);
    let module: Vec<u8> = std::iter::repeat_with(|| noise.u8(..)).take(16 << 20).collect();
    let image = Image::of(&module, std::collections::BTreeMap::new())?;
    for fault in [Fault::Cut, Fault::CutBody] {
        let what = format!("{fault:?}");
        let faulty = Faulty::start(move |_, operation, before| {
            (operation == Operation::Upload && before == 0).then(|| fault.clone())
        })?;
        let references = [reference(&format!("{}/a:1", faulty.name()))?];
        let (options, sources) = (options(), Sources::none());
        Registries::of(&references, &options, &sources, &Silent)
            .and_then(|registries| registries.publish(&image))
            .map_err(kit::Error::msg)
            .with_context(|| what.clone())?;
        ensure_eq!(faulty.count(Operation::Upload), 3, "{what}: uploads");
        ensure!(
            faulty.manifest("a", "1").as_ref() == Some(&image.manifest),
            "{what}: what is there"
        );
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
