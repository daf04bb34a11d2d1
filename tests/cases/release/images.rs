//! The images, copied to a registry and fetched from it by another tool.

use std::fs;
use std::path::Path;

use laststream_release::{
    Platform, VERSION, command_image, hook_image, module_image, program_archive,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tempfile::TempDir;

use super::{Release, names, run, unpacked};
use crate::lab::envoyless_cases;
use kit::prelude::*;
use kit::process::guarded;
use kit::programs::program;
use kit::registry::real::{Registry, Settings, blob, skopeo_copy, skopeo_pull};

envoyless_cases! {
    every_platform_gets_its_program,
    the_hooks_image_holds_its_program,
    the_module_has_the_digest_of_push,
}

const PLAIN: &str = "--src-tls-verify=false";

fn every_platform_gets_its_program() -> Outcome {
    let release = Release::get()?;
    let registry = Registry::start(&Settings::default())?;
    let image = format!("{}/laststream:{VERSION}", registry.name());
    publish(&release.file(&command_image()), &image)?;
    for platform in Platform::ALL {
        let root = pulled(&image, platform)?;
        let archive = unpacked(&release.file(&program_archive(platform)))?;
        let same = fs::read(root.path().join("laststream"))?
            == fs::read(archive.path().join("laststream"))?;
        ensure!(
            same,
            "the image for {} has another program than the archive",
            platform.architecture()
        );
        let certificates = fs::read(root.path().join("etc/ssl/certs/ca-certificates.crt"))?;
        let certificates: Vec<_> =
            CertificateDer::pem_slice_iter(&certificates).collect::<Result<_, _>>()?;
        ensure!(certificates.len() > 100, "only {} certificate authorities", certificates.len());
    }
    Ok(())
}

/// It holds nothing else.
fn the_hooks_image_holds_its_program() -> Outcome {
    let release = Release::get()?;
    let registry = Registry::start(&Settings::default())?;
    let image = format!("{}/hook:{VERSION}", registry.name());
    publish(&release.file(&hook_image()), &image)?;
    for platform in Platform::ALL {
        let root = pulled(&image, platform)?;
        ensure_eq!(names(root.path())?, ["laststream"], "files of {}", platform.architecture());
        if platform.target().starts_with(std::env::consts::ARCH) {
            let program = root.path().join("laststream");
            let help = run(guarded(program).arg("--help"))?;
            help.stdout_contains("the commands of stop hooks")?;
        }
    }
    Ok(())
}

/// The files of an image's only layer. Its configuration starts the program.
fn pulled(image: &str, platform: Platform) -> Outcome<TempDir> {
    let options = ["--override-os", "linux", "--override-arch", platform.architecture(), PLAIN];
    let folder = skopeo_copy(image, &options)?;
    let manifest: Value = serde_json::from_slice(&fs::read(folder.path().join("manifest.json"))?)?;
    let config: Value =
        serde_json::from_slice(&fs::read(blob(folder.path(), &manifest["config"])?)?)?;
    ensure_eq!(config["architecture"], platform.architecture(), "the architecture");
    ensure_eq!(config["config"]["Entrypoint"], json!(["/laststream"]), "the entry point");
    ensure_eq!(config["config"]["User"], "65532:65532", "the user");
    unpacked(&blob(folder.path(), &manifest["layers"][0])?)
}

fn the_module_has_the_digest_of_push() -> Outcome {
    let release = Release::get()?;
    let registry = Registry::start(&Settings::default())?;
    let image = format!("{}/module:{VERSION}", registry.name());
    publish(&release.file(&module_image()), &image)?;
    let (digest, module) = skopeo_pull(&image, &[PLAIN])?;
    let archive = unpacked(&release.file(&program_archive(Platform::Amd64)))?;
    let version = run(guarded(archive.path().join("laststream")).args(["version", "-o", "json"]))?;
    let version = version.json()?;
    ensure_eq!(version["module"]["digest"], digest, "the digest");
    ensure_eq!(version["module"]["size"], module.len(), "the size of the module");
    Ok(())
}

/// Copies a whole layout to a registry.
fn publish(layout: &Path, image: &str) -> Outcome {
    let layout = unpacked(layout)?;
    let source = format!("oci:{}:{VERSION}", layout.path().display());
    let copy = ["copy", "--insecure-policy", "--all", "--dest-tls-verify=false"];
    let image = format!("docker://{image}");
    run(guarded(program("skopeo")?).args(copy).args([source, image])).map(drop)
}
