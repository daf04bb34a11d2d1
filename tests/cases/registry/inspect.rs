//! `inspect` and `version`, for an image that `push` put into the real registry.

use super::user_with_password;
use crate::lab::envoyless_cases;
use kit::prelude::*;
use kit::registry::real::{PASSWORD, Registry, Settings};
use kit::user::User;

envoyless_cases! {
    the_builtin_module_is_pushed_and_recognised,
    a_failed_fetch_is_an_error_and_no_finding,
}

fn the_builtin_module_is_pushed_and_recognised() -> Outcome {
    let (registry, user) = (Registry::start(&Settings::default())?, User::new()?);
    let image = format!("{}/team/laststream:1.0.0", registry.name());
    let pushed = user.run(&["push", "-o", "json", &image], "")?.expect(0)?.json_lines()?;
    let version = user.run(&["version", "-o", "json"], "")?.expect(0)?.json()?;
    ensure_eq!(version["module"]["digest"], pushed[0]["digest"], "the digest that was foretold");
    for reference in [image.as_str(), pushed[0]["url"].as_str().context("a URL")?] {
        let told = user.run(&["inspect", "-o", "json", reference], "")?.expect(0)?.json()?;
        ensure_eq!(told["image"]["digest"], pushed[0]["digest"], "{reference}");
        ensure_eq!(told["module"]["sha256"], version["module"]["sha256"], "{reference}");
        ensure_eq!(told["checksums"][0]["of"], json!("manifest"), "{reference}");
        ensure_eq!(told["because"], json!([]), "{reference}");
    }
    Ok(())
}

fn a_failed_fetch_is_an_error_and_no_finding() -> Outcome {
    let (stranger, user) = (User::new()?, user_with_password(PASSWORD)?);
    let registry = Registry::private()?;
    let image = format!("{}/team/laststream:1.0.0", registry.name());
    stranger.run(&["inspect", &image], "")?.expect(2)?.stderr_contains("401")?;
    user.run(&["inspect", &image], "")?.expect(2)?.stderr_contains("404")?.hides(PASSWORD)?;
    user.run(&["push", &image], "")?.expect(0)?;
    user.run(&["inspect", &image], "")?.expect(0)?.hides(PASSWORD)?;
    user.run(&["inspect", "Laststream:1"], "")?
        .expect(2)?
        .stderr_contains("there is no such file")?;
    Ok(())
}
