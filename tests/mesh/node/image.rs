//! The only image of this level, made without a builder: Istio's agent and Envoy at the paths of
//! Istio's own image, both programs of laststream, and this program. The pause process of pods
//! comes from it, too.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::inside;
use crate::isolation::run_tool;
use crate::parts::part;
use kit::command;
use kit::prelude::*;
use kit::registry::sha256;
use kit::user;

/// The image with agent, Envoy, `laststream` and app. Its entry point is the agent, as the injected
/// container expects.
pub(crate) const IMAGE: &str = "laststream.test/mesh:1";
/// The same files; the entry point keeps the namespaces of a pod.
pub(crate) const PAUSE: &str = "laststream.test/pause:1";
/// The same files under the name of an image of Envoy.
pub(crate) const ENVOY: &str = "laststream.test/envoy:1";
/// The path of this program in the image.
pub(crate) const APP: &str = "/usr/local/bin/app";
/// The path of `laststream` in the image.
pub(crate) const LASTSTREAM: &str = "/usr/local/bin/laststream";
/// The path of the small program for stop hooks and Jobs.
pub(crate) const HOOK: &str = "/usr/local/bin/laststream-hook";

/// The path of the module in the image.
pub(crate) const MODULE: &str = "/usr/local/lib/laststream.wasm";

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Writes the image into a file that containerd imports.
pub(crate) fn write(folder: &Path) -> Outcome<PathBuf> {
    let layer = layer(folder)?;
    let layout = folder.join("layout");
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let layer_digest = sha256(&fs::read(&layer)?);
    let size = fs::metadata(&layer)?.len();
    fs::rename(&layer, blobs.join(layer_digest.trim_start_matches("sha256:")))?;
    let layer = json!({
        "mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": layer_digest, "size": size,
    });
    let entries = [
        (IMAGE, vec!["/usr/local/bin/pilot-agent"]),
        (PAUSE, vec![APP, inside::ROLE, "pause"]),
        (ENVOY, vec!["/usr/local/bin/envoy"]),
    ];
    let manifests: Vec<Value> = entries
        .iter()
        .map(|(name, entry)| manifest(&blobs, name, entry, &layer))
        .collect::<Outcome<_>>()?;
    fs::write(
        layout.join("index.json"),
        json!({ "schemaVersion": 2, "manifests": manifests }).to_string(),
    )?;
    fs::write(layout.join("oci-layout"), json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
    let archive = folder.join("image.tar");
    pack(&layout, &archive)?;
    fs::remove_dir_all(layout)?;
    Ok(archive)
}

/// All files in one layer.
fn layer(folder: &Path) -> Outcome<PathBuf> {
    let root = folder.join("root");
    let this = std::env::current_exe()?;
    let programs = [
        (part("envoy")?, "envoy"),
        (part("pilot-agent")?, "pilot-agent"),
        (user::laststream()?, "laststream"),
        (user::hook()?, "laststream-hook"),
        (&this, "app"),
    ];
    for (program, name) in programs {
        copy(program, &root.join("usr/local/bin").join(name))?;
        for library in libraries(program)? {
            copy(&library, &root.join(library.strip_prefix("/").unwrap_or(&library)))?;
        }
    }
    symlink(HOOK, root.join("laststream"))?; // as the hook's own image has it
    let module = laststream_module::builtin().map_err(Error::msg)?;
    let file = root.join(MODULE.trim_start_matches('/'));
    fs::create_dir_all(file.parent().context("a file in a folder")?)?;
    fs::write(file, module)?;
    copy(
        part("envoy_bootstrap.json")?,
        &root.join("var/lib/istio/envoy/envoy_bootstrap_tmpl.json"),
    )?;
    let layer = folder.join("layer.tar");
    pack(&root, &layer)?;
    fs::remove_dir_all(root)?;
    Ok(layer)
}

fn copy(from: &Path, to: &Path) -> Outcome {
    fs::create_dir_all(to.parent().context("a file in a folder")?)?;
    fs::copy(from, to).with_context(|| from.display().to_string()).map(drop)
}

/// The libraries that the machine's loader would load for a program; none for a static one.
fn libraries(program: &Path) -> Outcome<Vec<PathBuf>> {
    let text = command::run(Command::new("ldd").arg(program))?.stdout;
    Ok(text
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .filter(|path| path.is_file())
        .collect())
}

fn pack(folder: &Path, archive: &Path) -> Outcome {
    let [folder, archive] = [folder, archive].map(|path| path.to_str().context("a path in UTF-8"));
    run_tool(
        "tar",
        &["--create", "--owner=0", "--group=0", "--file", archive?, "--directory", folder?, "."],
    )
}

/// Writes configuration and manifest, and returns the manifest's entry in the index.
fn manifest(blobs: &Path, name: &str, entry: &[&str], layer: &Value) -> Outcome<Value> {
    let config = json!({
        "architecture": "amd64", "os": "linux",
        "rootfs": { "type": "layers", "diff_ids": [layer["digest"]] },
        "config": { "Entrypoint": entry, "Env": ["PATH=/usr/local/bin"] },
    });
    let (digest, size) = blob(blobs, &config)?;
    let config = json!({
        "mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest, "size": size,
    });
    let manifest =
        json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer] });
    let (digest, size) = blob(blobs, &manifest)?;
    Ok(json!({
        "mediaType": MANIFEST, "digest": digest, "size": size,
        "annotations": { "io.containerd.image.name": name },
    }))
}

fn blob(blobs: &Path, value: &Value) -> Outcome<(String, usize)> {
    let bytes = value.to_string();
    let digest = sha256(bytes.as_bytes());
    fs::write(blobs.join(digest.trim_start_matches("sha256:")), &bytes)?;
    Ok((digest, bytes.len()))
}
