//! `render` pins what the real registry has under a tag.

use super::push;
use crate::lab::envoyless_cases;
use kit::prelude::*;
use kit::registry::real::{Registry, Settings};
use kit::user::User;

envoyless_cases! {
    a_tag_is_rendered_as_its_digest,
}

fn a_tag_is_rendered_as_its_digest() -> Outcome {
    let (registry, user) = (Registry::start(&Settings::default())?, User::new()?);
    let image = format!("{}/team/laststream:1.0.0", registry.name());
    let policy = user.argument("policy.yaml", format!("module: oci://{image}\n"))?;
    let render = ["render", "all", "--policy", &policy];
    user.run(&[&render[..], &["--output", "manifests"]].concat(), "")?
        .expect(2)?
        .stderr_contains("404")?
        .stderr_contains("--digest sha256:")?;

    let pushed = push(&user, &["-o", "json", &image])?.expect(0)?.json_lines()?;
    let digest = pushed[0]["digest"].as_str().context("a digest")?.to_owned();
    user.run(&[&render[..], &["--output", "manifests"]].concat(), "")?.expect(0)?;
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
