//! `render` pins the digest that a registry has under a tag.

use super::{push, user_with_password};
use std::fs;

use laststream_module::analysis::ModuleKind;
use laststream_oci::image::{Descriptor, Image, LAYER, Packed, archive, compress};

use crate::lab::{self, envoyless_cases};
use kit::prelude::*;
use kit::registry::faulty::Faulty;
use kit::registry::real::{PASSWORD, Registry, Settings, USERNAME};
use kit::registry::sha256;
use kit::user::User;

envoyless_cases! {
    a_tag_is_rendered_as_its_digest,
    an_index_is_rendered_as_its_manifest_for_linux,
    an_image_of_something_else_is_refused,
    a_tag_that_contradicts_its_digest_is_reported,
    all_images_are_resolved_with_one_login,
}

fn a_tag_is_rendered_as_its_digest() -> Outcome {
    let (registry, user) = (Registry::start(&Settings::default())?, User::new()?);
    let image = format!("{}/team/laststream:1.0.0", registry.name());
    let policy =
        user.argument("policy.yaml", format!("namespace: edge\nmodule: oci://{image}\n"))?;
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
    let faulty = Faulty::start(|_, _, _| None)?;
    let image = Image::of(&fs::read(lab::module()?)?, ModuleKind::Module.annotations())?;
    faulty.put(&format!("/v2/a/manifests/{}", image.digest), &image.manifest);
    faulty.put("the layer", &image.layer);
    let child = |digest: &str, platform: Value| {
        json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json", "size": 2,
            "digest": digest, "platform": platform,
        })
    };
    let arm = child(&sha256(b"arm"), json!({ "os": "linux", "architecture": "arm64" }));
    let amd = child(image.digest.as_str(), json!({ "os": "linux", "architecture": "amd64" }));
    let unknown = json!({ "os": "unknown", "architecture": "unknown" });
    let attestation = child(&sha256(b"unknown"), unknown);
    let put = |tag: &str, manifests: &[&Value]| {
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests });
        let index = index.to_string();
        faulty.put(&format!("/v2/a/manifests/{tag}"), index.as_bytes());
        sha256(index.as_bytes())
    };
    let user = User::new()?;
    let render = |tag: &str| {
        let module = format!("oci://{}/a:{tag}", faulty.name());
        user.run(&["render", "envoyfilter", "--namespace", "edge", "--module", &module], "")
    };

    let digest = put("both", &[&attestation, &arm, &amd]);
    let rendered = render("both")?.expect(0)?.stderr_contains("is an index, not a manifest")?;
    ensure!(rendered.stdout.contains(image.digest.as_str()), "{}", rendered.stdout);
    ensure!(!rendered.stdout.contains(&digest), "the index: {}", rendered.stdout);
    put("arm", &[&attestation, &arm]);
    render("arm")?
        .expect(2)?
        .stderr_contains("no manifest for linux/amd64")?
        .stderr_contains("--provenance=false")?
        .stderr_contains("--digest sha256:")?;
    Ok(())
}

fn an_image_of_something_else_is_refused() -> Outcome {
    let (registry, user) = (Registry::start(&Settings::default())?, User::new()?);
    let image = |name: &str| format!("{}/{name}:1", registry.name());
    push(&user, &[&image("module"), &image("second-module")])?.expect(0)?;
    let (first, second) = (image("frames"), image("second-frames"));
    let frames = ["push", "--module", "builtin-frames", &first, &second];
    user.run(&frames, "")?.expect(0)?;
    let render = |module: &str, frames: &str| {
        let policy = two_images(&user, &image(module), &image(frames))?;
        user.run(&["render", "all", "--policy", &policy, "--output-dir", "manifests"], "")
    };
    render("second-frames", "frames")?
        .expect(2)?
        .stderr_contains("holds laststream's frame filter, but this must be laststream's module")?;
    render("module", "second-module")?
        .expect(2)?
        .stderr_contains("holds laststream's module, but this must be laststream's frame filter")?;
    render("module", "frames")?.expect(0)?.stderr_contains("kubectl apply --kustomize")?;

    let faulty = Faulty::start(|_, _, _| None)?;
    let layer = compress(&archive(&[Packed { path: "f.txt", mode: 0o644, bytes: b"f" }])?)?;
    let manifest = json!({
        "schemaVersion": 2, "layers": [Descriptor::of(LAYER, &layer)],
    });
    faulty.put("/v2/a/manifests/1", manifest.to_string().as_bytes());
    faulty.put("the layer", &layer);
    let module = format!("oci://{}/a:1", faulty.name());
    user.run(&["render", "envoyfilter", "--namespace", "edge", "--module", &module], "")?
        .expect(2)?
        .stderr_contains("holds no module")?
        .stderr_contains("its last layer holds no `plugin.wasm`")?;
    Ok(())
}

fn a_tag_that_contradicts_its_digest_is_reported() -> Outcome {
    let (registry, user) = (Registry::start(&Settings::default())?, User::new()?);
    let image = registry.image();
    let pushed = push(&user, &["-o", "json", &image])?.expect(0)?.json_lines()?;
    let digest = pushed[0]["digest"].as_str().context("a digest")?;
    let render = |digest: &str, more: &[&str]| {
        let policy = format!("namespace: edge\nmodule: oci://{image}\ndigest: {digest}\n");
        let policy = user.argument("policy.yaml", policy)?;
        user.run(&[&["render", "envoyfilter", "--policy", &policy][..], more].concat(), "")?
            .expect(0)
    };
    ensure_eq!(render(digest, &[])?.stderr, "", "messages");
    let other = sha256(b"other");
    let said = render(&other, &[])?.stderr_contains(&format!("`{image}` is `{digest}` now"))?;
    ensure!(said.stdout.contains(&other), "the digest alone is used: {}", said.stdout);
    let before = registry.requests().len();
    render(digest, &["--digest", &other])?.stderr_contains("was not verified")?;
    ensure_eq!(registry.requests().len(), before, "requests");
    Ok(())
}

/// A policy with two images, by tag.
fn two_images(user: &User, module: &str, frames: &str) -> Outcome<String> {
    let routes = "  routes: [{name: chat}]\nend: {websocket: end}";
    let policy = format!(
        "namespace: edge\nmodule: oci://{module}\nwebsockets:\n  module: oci://{frames}\n{routes}\n"
    );
    user.argument("policy.yaml", policy)
}

/// Standard input can be read only once, so all images share the password.
fn all_images_are_resolved_with_one_login() -> Outcome {
    let user = user_with_password(PASSWORD)?;
    let registry = Registry::private()?;
    let image = |name: &str| format!("{}/{name}:1", registry.name());
    push(&user, &[&image("module")])?.expect(0)?;
    user.run(&["push", "--module", "builtin-frames", &image("frames")], "")?.expect(0)?;
    let before = registry.requests().len();

    let asking = User::new()?;
    let policy = two_images(&asking, &image("module"), &image("frames"))?;
    let login = ["--username", USERNAME, "--password-stdin"];
    let render = ["render", "all", "--policy", &policy, "--output-dir", "manifests"];
    let said = asking.run(&[&render[..], &login].concat(), &format!("{PASSWORD}\n"))?.expect(0)?;
    said.stderr_contains("whose challenge has the realm `test`")?;
    let asked = registry.requests().split_off(before);
    let manifests = asked.iter().filter(|request| request.contains("/manifests/"));
    ensure!(manifests.count() <= 4, "an image is asked for again: {asked:#?}");
    Ok(())
}
