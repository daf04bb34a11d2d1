//! The first path of a user without Rust, word for word: the program from its archive, as
//! docs/release.md says, and then README.md's installation up to `kubectl`.

use super::{Release, names, run};
use crate::docs::{ADDRESS, commands};
use crate::lab::envoyless_cases;
use kit::prelude::*;
use kit::programs::program;
use kit::registry::real::{Registry, Settings};
use kit::user::User;

envoyless_cases! {
    the_documents_lead_from_the_archive_to_manifests,
}

fn the_documents_lead_from_the_archive_to_manifests() -> Outcome {
    let (user, registry) = (User::new()?, Registry::start(&Settings::default())?);
    let release = Release::get()?;
    let place = release.place()?;
    let downloads = format!("{ADDRESS}/releases/download");
    let get = commands("docs/release.md", "tar -xzf")?
        .replace(&downloads, &format!("file://{}", place.path().display()));
    let install =
        commands("README.md", "laststream push")?.replace("registry.example.com", &registry.name());
    let (install, _) = install.split_once("kubectl").context("README.md applies nothing")?;
    let (own, curl) = (user.path(".local/bin"), program("curl")?);
    let path = [&own, curl.parent().context("a folder")?, "/usr/bin".as_ref(), "/bin".as_ref()];
    run(user
        .command("bash")
        .args(["-euxc", &format!("{get}{install}")])
        .env("PATH", std::env::join_paths(path)?)
        .env("https_proxy", "http://127.0.0.1:9"))?;
    let rendered = names(&user.path("gateway"))?;
    let expected = ["envoyfilter.yaml", "kustomization.yaml", "proxy-config.yaml"];
    ensure_eq!(rendered, expected, "files of README.md's policy");
    Ok(())
}
