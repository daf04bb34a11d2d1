//! Pushing to the real registry, and fetching with another tool.

use std::fs;

use super::{push, utf8};
use crate::lab::{self, envoyless_cases};
use kit::command::CommandOutput;
use kit::prelude::*;
use kit::registry::real::{Registry, Settings, skopeo_pull};
use kit::registry::sha256;
use kit::user::User;

envoyless_cases! {
    other_tools_find_a_pushed_image,
    the_second_push_sends_no_blob,
    both_checksums_are_printed,
    a_dry_run_sends_no_request,
    annotations_are_in_the_manifest,
    a_tag_that_moves_is_reported,
    a_tag_keeps_its_kind_of_module,
    the_result_can_be_signed,
    nothing_is_published_by_a_read_only_registry,
    nothing_is_published_on_a_full_disk,
}

const PLAIN: &[&str] = &["--src-tls-verify=false"];

fn other_tools_find_a_pushed_image() -> Outcome {
    let (registry, user) = (Registry::start(&Settings::default())?, User::new()?);
    let (first, second) = (
        format!("{}/team/laststream:1.0.0", registry.name()),
        format!("{}/team/laststream:latest", registry.name()),
    );
    let digest_file = user.path("digest");
    let said = push(
        &user,
        &["-o", "json", "--digest-file", utf8(&digest_file), &first, &format!("oci://{second}")],
    )?
    .expect(0)?;
    let digest = fs::read_to_string(&digest_file)?.trim().to_owned();
    let repository = format!("{}/team/laststream", registry.name());
    let line = |tag| {
        json!({
            "url": format!("oci://{repository}@{digest}"), "repository": repository, "tag": tag,
            "digest": digest,
        })
    };
    ensure_eq!(said.json_lines()?, [line("1.0.0"), line("latest")], "the result");
    let module = fs::read(lab::module()?)?;
    for image in [&first, &second, &format!("{repository}@{digest}")] {
        let (found, plugin) = skopeo_pull(image, PLAIN)?;
        ensure_eq!(found, digest, "{image}");
        ensure!(plugin == module, "{image} holds another module");
    }
    Ok(())
}

fn the_second_push_sends_no_blob() -> Outcome {
    let (registry, user) = (Registry::start(&Settings::default())?, User::new()?);
    let image = registry.image();
    push(&user, &[&image])?.expect(0)?;
    let uploads = |requests: &[String]| {
        requests.iter().filter(|request| request.contains("/blobs/uploads/")).count()
    };
    let first = registry.requests();
    ensure_eq!(uploads(&first), 4, "requests of two uploads in {first:#?}");
    let said = push(&user, &["-o", "json", &image, &image])?
        .expect(0)?
        .stderr_contains("is there already")?;
    ensure_eq!(said.json_lines()?.len(), 1, "lines for what was named twice");
    let second = registry.requests().split_off(first.len());
    ensure_eq!((uploads(&second), second.len()), (0, 4), "uploads and requests in {second:#?}");
    Ok(())
}

fn both_checksums_are_printed() -> Outcome {
    let (registry, user) = (Registry::start(&Settings::default())?, User::new()?);
    let said = push(&user, &[&registry.image()])?.expect(0)?;
    let module = sha256(&fs::read(lab::module()?)?).replace("sha256:", "");
    let line = |begin: &str| {
        said.stdout
            .lines()
            .find_map(|line| line.strip_prefix(begin))
            .map(str::trim)
            .context(begin.to_owned())
    };
    ensure_eq!(line("module sha256:")?, module, "the module's");
    let digest = line("manifest digest:")?;
    let pinned = format!("oci://{}/laststream@{digest}\n", registry.name());
    said.clone().stdout_contains(&pinned)?;
    ensure!(digest != format!("sha256:{module}"), "they are not the same");
    Ok(())
}

fn a_dry_run_sends_no_request() -> Outcome {
    let (registry, user) = (Registry::start(&Settings::default())?, User::new()?);
    let (image, file) = (registry.image(), user.path("digest"));
    let said = push(&user, &["--dry-run", "--digest-file", utf8(&file), &image])?.expect(0)?;
    let manifest = said.stdout.lines().next().context("a manifest")?;
    let digest = sha256(manifest.as_bytes());
    said.stdout_contains(&format!("manifest digest: {digest}\n"))?;
    ensure_eq!(fs::read_to_string(&file)?.trim(), digest, "the file");
    ensure_eq!(registry.requests(), Vec::<String>::new(), "requests");
    let pushed = push(&user, &["-o", "json", &image])?.expect(0)?.json_lines()?;
    ensure_eq!(pushed[0]["digest"], digest, "the digest of the push");
    let dry = push(&user, &["-o", "json", "--dry-run", &image])?.json_lines()?;
    ensure_eq!(dry, pushed, "the result");
    Ok(())
}

fn annotations_are_in_the_manifest() -> Outcome {
    let user = User::new()?;
    let (ours, title) = ("a.b=c=d", "org.opencontainers.image.title=mine");
    let said = push(&user, &["--dry-run", "-a", ours, "-a", title, "localhost/x:1"])?.expect(0)?;
    let manifest: serde_json::Value =
        serde_json::from_str(said.stdout.lines().next().unwrap_or_default())?;
    let annotations = &manifest["annotations"];
    ensure_eq!(annotations["a.b"], "c=d", "one of ours");
    ensure_eq!(annotations["org.opencontainers.image.title"], "mine", "a standard one");
    ensure_eq!(annotations["module.wasm.image/variant"], "compat", "the layout");
    for wrong in ["novalue", "=x", "module.wasm.image/variant=other"] {
        push(&user, &["--dry-run", "-a", wrong, "localhost/x:1"])?.expect(64)?;
    }
    Ok(())
}

fn a_tag_that_moves_is_reported() -> Outcome {
    let (registry, user) = (Registry::start(&Settings::default())?, User::new()?);
    let image = registry.image();
    let digest = |said: &CommandOutput| {
        said.json_lines()?[0]["digest"].as_str().map(str::to_owned).context("a digest")
    };
    let before = push(&user, &["-o", "json", &image])?.expect(0)?.hides("moves")?;
    push(&user, &["-o", "json", &image])?.expect(0)?.hides("moves")?;
    let after = push(&user, &["-o", "json", "-a", "a=b", &image])?.expect(0)?;
    let (before, digest) = (digest(&before)?, digest(&after)?);
    after.stderr_contains(&format!("`{image}` moves from {before} to {digest}")).map(drop)
}

/// A typing error must not make the frame filter the module.
fn a_tag_keeps_its_kind_of_module() -> Outcome {
    let (registry, user) = (Registry::start(&Settings::default())?, User::new()?);
    let image = registry.image();
    push(&user, &[&image])?.expect(0)?;
    let frames = ["push", "--module", "builtin-frames", &image];
    user.run(&frames, "")?
        .expect(2)?
        .stderr_contains("holds laststream's module, and this push has laststream's frame filter")?
        .stderr_contains("no tag has changed")?
        .hides("moves")?;
    let held = |words: &str| user.run(&["inspect", &image], "")?.expect(0)?.stdout_contains(words);
    held("what     laststream's module")?;
    user.run(&[&frames[..], &["--replace"]].concat(), "")?.expect(0)?;
    held("what     laststream's frame filter")?;
    let foreign = user.argument("foreign.wasm", FOREIGN)?;
    user.run(&["push", "--module", &foreign, &image], "")?
        .expect(1)?
        .stderr_contains("not of laststream")?;
    Ok(())
}

/// A module that exports nothing but the version of its interface.
const FOREIGN: &[u8] = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x1b\x01\x17\
    proxy_abi_version_0_2_1\0\0\x0a\x04\x01\x02\0\x0b";

/// With cosign and without it; a cosign that fails is a unit test.
fn the_result_can_be_signed() -> Outcome {
    let (registry, user) = (Registry::start(&Settings::default())?, User::new()?);
    let image = registry.image();
    let said = push(&user, &["-o", "json", "--sign", &image])?.expect(2)?;
    let digest = said.json_lines()?[0]["digest"].as_str().context("a digest")?.to_owned();
    let command =
        format!("sign --yes --allow-http-registry {}/laststream@{digest}", registry.name());
    said.stderr_contains("published, but not signed")?
        .stderr_contains(&format!("cosign {command}"))?;
    user.program("cosign", "echo to people; echo \"$@\" > signed")?;
    let said = push(
        &user,
        &["-o", "json", "--sign", &image, &format!("{}/laststream:2", registry.name())],
    )?
    .expect(0)?
    .stderr_contains("to people")?;
    ensure_eq!(said.json_lines()?.len(), 2, "lines of data");
    ensure_eq!(fs::read_to_string(user.path("signed"))?.trim(), command, "the arguments");
    Ok(())
}

fn nothing_is_published_by_a_read_only_registry() -> Outcome {
    let (registry, user) =
        (Registry::start(&Settings { read_only: true, ..Settings::default() })?, User::new()?);
    let said = push(&user, &[&registry.image()])?.expect(2)?;
    said.stderr_contains("answers with status 405")?
        .stderr_contains("it may be read-only")?
        .stderr_contains("no tag has changed")?;
    ensure_eq!(registry.requests().len(), 3, "requests in {:#?}", registry.requests());
    Ok(())
}

/// The registry cannot write files above 16 kB, so the layer does not fit.
fn nothing_is_published_on_a_full_disk() -> Outcome {
    let (registry, user) = (
        Registry::start(&Settings { file_limit: Some(16 << 10), ..Settings::default() })?,
        User::new()?,
    );
    let image = registry.image();
    let said = push(&user, &["--retries", "1", &image])?.expect(2)?;
    said.stderr_contains("uploading a blob")?
        .stderr_contains("trying again in 0.5 s")?
        .stderr_contains("no tag has changed")?;
    ensure!(!registry.has_tag("laststream", "1"), "a tag is there");
    ensure!(skopeo_pull(&image, PLAIN).is_err(), "it is found");
    Ok(())
}
