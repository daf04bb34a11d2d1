//! The plugin for kubectl: its manifest by krew's own rules.

use std::collections::BTreeSet;

use laststream_release::{PLUGIN, Platform, VERSION, program_archive};

use super::{Release, unpacked};
use crate::lab::envoyless_cases;
use kit::prelude::*;
use kit::registry::sha256;

envoyless_cases! {
    the_manifest_keeps_krews_rules,
}

/// The rules of krew's `ValidatePlugin`, and its naming guide's limit for short descriptions.
/// <https://github.com/kubernetes-sigs/krew/blob/master/internal/index/validation/validate.go>
fn the_manifest_keeps_krews_rules() -> Outcome {
    let release = Release::get()?;
    let plugin: Value = serde_saphyr::from_slice(&release.read(PLUGIN)?)?;
    ensure_eq!(plugin["apiVersion"], "krew.googlecontainertools.github.com/v1alpha2", "apiVersion");
    ensure_eq!(plugin["kind"], "Plugin", "kind");
    ensure_eq!(plugin["metadata"]["name"], "laststream", "the name, which is also the file's");
    let spec = &plugin["spec"];
    let short = spec["shortDescription"].as_str().context("a short description")?;
    ensure!(
        !short.is_empty() && short.len() < 50 && !short.contains('\n'),
        "the short description is `{short}`"
    );
    ensure_eq!(spec["version"], format!("v{VERSION}"), "the version, with a v");
    let known = ["version", "homepage", "shortDescription", "description", "caveats", "platforms"];
    let unknown =
        spec.as_object().context("a spec")?.keys().find(|key| !known.contains(&key.as_str()));
    ensure!(unknown.is_none(), "krew does not know {unknown:?}");
    let platforms = spec["platforms"].as_array().context("platforms")?;
    ensure_eq!(platforms.len(), Platform::ALL.len(), "platforms");
    for (platform, entry) in Platform::ALL.into_iter().zip(platforms) {
        check_platform(&release, platform, entry)?;
    }
    Ok(())
}

/// The entry names an archive of the release, its checksum, and files in the archive.
fn check_platform(release: &Release, platform: Platform, entry: &Value) -> Outcome {
    let labels = json!({ "matchLabels": { "os": "linux", "arch": platform.architecture() } });
    ensure_eq!(entry["selector"], labels, "the selector");
    let uri = entry["uri"].as_str().context("a uri")?;
    let archive = program_archive(platform);
    ensure!(
        uri.starts_with("https://") && uri.ends_with(&format!("/v{VERSION}/{archive}")),
        "the uri is {uri}"
    );
    let digest = sha256(&release.read(&archive)?);
    ensure_eq!(entry["sha256"].as_str(), digest.strip_prefix("sha256:"), "the checksum");
    let folder = unpacked(&release.file(&archive))?;
    let files = entry["files"].as_array().context("files")?;
    let mut installed = BTreeSet::new();
    for file in files {
        let from = file["from"].as_str().context("from")?;
        ensure!(folder.path().join(from).is_file(), "`{from}` is not in {archive}");
        ensure_eq!(file["to"], ".", "to");
        installed.insert(from);
    }
    ensure!(
        entry["bin"].as_str().is_some_and(|bin| installed.contains(bin)),
        "`bin` is not among {installed:?}"
    );
    Ok(())
}
