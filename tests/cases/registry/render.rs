//! `render` pins the digest that a registry has under a tag.

use super::{PASSWORD, USERNAME, push, registry_with_password, user_with_password};
use crate::lab::envoyless_cases;
use kit::fake_server::Fault;
use kit::prelude::*;
use kit::registry::faulty::{Faulty, Operation};
use kit::registry::real::{Registry, Settings};
use kit::registry::sha256;
use kit::user::User;

envoyless_cases! {
    a_tag_is_rendered_as_its_digest,
    an_index_is_rendered_as_its_manifest_for_linux,
    all_images_are_resolved_with_one_login,
}

fn a_tag_is_rendered_as_its_digest() -> Outcome {
    let (registry, user) = (Registry::start(&Settings::default())?, User::new()?);
    let image = format!("{}/team/laststream:1.0.0", registry.name());
    let policy = user.argument("policy.yaml", format!("module: oci://{image}\n"))?;
    let render = ["render", "all", "--policy", &policy];
    user.run(&[&render[..], &["--output-dir", "manifests"]].concat(), "")?
        .expect(2)?
        .stderr_contains("404")?
        .stderr_contains("--digest sha256:")?;

    let pushed = push(&user, &["-o", "json", &image])?.expect(0)?.json_lines()?;
    let digest = pushed[0]["digest"].as_str().context("a digest")?.to_owned();
    user.run(&[&render[..], &["--output-dir", "manifests"]].concat(), "")?.expect(0)?;
    let rendered = user.run(&["render", "envoyfilter", "--policy", &policy], "")?.expect(0)?.stdout;
    ensure!(
        rendered.contains(&digest) && !rendered.contains(":1.0.0"),
        "the digest instead of the tag:\n{rendered}"
    );
    user.run(&[&render[..], &["--check", "manifests"]].concat(), "")?.expect(0)?;

    push(&user, &["-o", "json", "--annotation", "another=image", &image])?.expect(0)?;
    let differs = user
        .run(&[&render[..], &["--check", "manifests"]].concat(), "")?
        .expect(1)?
        .stderr_contains("differs: envoyfilter.yaml")?;
    ensure!(differs.stdout.contains(&digest), "what was there: {}", differs.stdout);
    user.run(&[&render[..], &["--digest", &digest, "--check", "manifests"]].concat(), "")?
        .expect(0)?;
    Ok(())
}

/// An index is replaced by its manifest for Linux, because Istio and Envoy Gateway refuse a module
/// that is pinned by the digest of an index.
fn an_index_is_rendered_as_its_manifest_for_linux() -> Outcome {
    const INDEX: &str = "application/vnd.oci.image.index.v1+json";
    let kind = Fault::Header("content-type", INDEX.to_owned());
    let faulty = Faulty::failing(Operation::LookForManifest, kind)?;
    let child = |name: &str, platform: Value| {
        json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json", "size": 2,
            "digest": sha256(name.as_bytes()), "platform": platform,
        })
    };
    let arm = child("arm", json!({ "os": "linux", "architecture": "arm64" }));
    let amd = child("amd", json!({ "os": "linux", "architecture": "amd64" }));
    let attestation = child("unknown", json!({ "os": "unknown", "architecture": "unknown" }));
    let put = |tag: &str, manifests: &[&Value]| {
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests });
        let index = index.to_string();
        let digest = sha256(index.as_bytes());
        faulty.put(&format!("/v2/a/manifests/{tag}"), index.as_bytes());
        faulty.put(&format!("/v2/a/manifests/{digest}"), index.as_bytes());
        digest
    };
    let user = User::new()?;
    let render = |tag: &str| {
        let module = format!("oci://{}/a:{tag}", faulty.name());
        user.run(&["render", "envoyfilter", "--module", &module], "")
    };

    let digest = put("both", &[&attestation, &arm, &amd]);
    let rendered = render("both")?.expect(0)?.stderr_contains("is an index, not a manifest")?;
    ensure!(rendered.stdout.contains(&sha256(b"amd")), "{}", rendered.stdout);
    ensure!(!rendered.stdout.contains(&digest), "the index: {}", rendered.stdout);
    put("arm", &[&attestation, &arm]);
    render("arm")?
        .expect(2)?
        .stderr_contains("without a manifest for linux/amd64")?
        .stderr_contains("--provenance=false")?
        .stderr_contains("--digest sha256:")?;
    Ok(())
}

/// A policy with two images, by tag.
fn two_images(user: &User, module: &str, frames: &str) -> Outcome<String> {
    let routes = "  routes: [{name: chat}]\nend: {websocket: end}";
    let policy =
        format!("module: oci://{module}\nwebsockets:\n  module: oci://{frames}\n{routes}\n");
    Ok(user.file("policy.yaml", policy)?.to_str().context("a path")?.to_owned())
}

/// Standard input can be read only once, so all images share the password.
fn all_images_are_resolved_with_one_login() -> Outcome {
    let user = user_with_password(PASSWORD)?;
    let registry = registry_with_password(&user)?;
    let image = |name: &str| format!("{}/{name}:1", registry.name());
    push(&user, &[&image("module"), &image("frames")])?.expect(0)?;
    let before = registry.requests().len();

    let asking = User::new()?;
    let policy = two_images(&asking, &image("module"), &image("frames"))?;
    let login = ["--username", USERNAME, "--password-stdin"];
    let render = ["render", "all", "--policy", &policy, "--output-dir", "manifests"];
    asking.run(&[&render[..], &login].concat(), &format!("{PASSWORD}\n"))?.expect(0)?;
    let asked = registry.requests().split_off(before);
    let manifests = asked.iter().filter(|request| request.contains("/manifests/"));
    ensure!(manifests.count() <= 4, "an image is asked for again: {asked:#?}");

    asking
        .run(&[&["render", "all", "--policy", "-"][..], &login].concat(), "")?
        .expect(64)?
        .stderr_contains("cannot both come from standard input")?;
    asking
        .run(&[&render[..], &login[..2]].concat(), "")?
        .expect(64)?
        .stderr_contains("give both or neither")?;
    let pinned = ["render", "envoyfilter", "--module", "/a.wasm"];
    asking
        .run(&[&pinned[..], &["--password-stdin"]].concat(), PASSWORD)?
        .expect(64)?
        .stderr_contains("give both or neither")?;
    asking
        .run(&["inspect", &image("module"), "--username", USERNAME], "")?
        .expect(64)?
        .stderr_contains("give both or neither")?;
    Ok(())
}
