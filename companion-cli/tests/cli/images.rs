//! The output of `inspect` for images.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use kit::Outcome;
use kit::command::CommandOutput;

use crate::layout::{DOCKER_LAYER, DOCKER_MANIFEST, Layout, OCI_LAYER, OCI_MANIFEST, gzip, tar};
use crate::support::{laststream, loadable};

const SOLO_MODULE: &str = "application/vnd.module.wasm.content.layer.v1+wasm";
const SOLO_CONFIG: &str = "application/vnd.module.wasm.config.v1+json";

fn inspect(layout: &Path, more: &[&str]) -> Outcome<CommandOutput> {
    laststream(
        layout.parent().unwrap(),
        [layout.to_str().unwrap()].iter().chain(more).fold(vec!["inspect"], |mut all, next| {
            all.push(next);
            all
        }),
    )
}

fn plugin(module: &[u8]) -> Vec<u8> {
    gzip(&tar(&[("plugin.wasm", module)]))
}

#[track_caller]
fn taken(layers: &[(&str, Vec<u8>)], manifest: &str) -> Outcome {
    let layout = Layout::of(manifest, layers);
    let told = inspect(layout.path(), &["-o", "json"])?.expect(0)?.json()?;
    assert_eq!(told["because"], json!([]));
    Ok(())
}

/// No proxy finds the module, for this reason; but `inspect` finds it.
#[track_caller]
fn misplaced(layers: &[(&str, Vec<u8>)], words: &str) -> Outcome {
    let told = because(layers, words)?;
    assert!(told["module"]["size"].is_u64(), "{told:#}");
    Ok(())
}

/// No proxy finds the module, for this reason, and neither does `inspect`.
#[track_caller]
fn missing(layers: &[(&str, Vec<u8>)], words: &str) -> Outcome {
    let told = because(layers, words)?;
    assert_eq!(told["module"], json!(null), "{told:#}");
    Ok(())
}

#[track_caller]
fn because(layers: &[(&str, Vec<u8>)], words: &str) -> Outcome<Value> {
    let layout = Layout::of(OCI_MANIFEST, layers);
    let told = inspect(layout.path(), &["-o", "json"])?.expect(1)?.json()?;
    let reasons = told["because"].to_string();
    assert!(reasons.contains(words), "`{words}` is not in {reasons}");
    Ok(told)
}

#[test]
fn the_three_layouts_are_taken() -> Outcome {
    let module = loadable("");
    taken(&[(OCI_LAYER, plugin(&module))], OCI_MANIFEST)?;
    taken(&[(DOCKER_LAYER, plugin(&module))], DOCKER_MANIFEST)?;
    taken(&[(SOLO_CONFIG, b"{}".to_vec()), (SOLO_MODULE, module.clone())], OCI_MANIFEST)?;
    taken(&[(SOLO_MODULE, module.clone()), (SOLO_CONFIG, b"{}".to_vec())], OCI_MANIFEST)?;
    taken(&[(OCI_LAYER, gzip(&tar(&[("./build/plugin.wasm", &module)])))], OCI_MANIFEST)?;
    taken(
        &[(OCI_LAYER, gzip(&tar(&[("etc/passwd", b"")]))), (OCI_LAYER, plugin(&module))],
        OCI_MANIFEST,
    )?;
    Ok(())
}

#[test]
fn a_layout_that_no_proxy_takes_is_named() -> Outcome {
    let module = loadable("");
    let whole = plugin(&module);
    let archive = tar(&[("plugin.wasm", &module)]);
    misplaced(&[(DOCKER_LAYER, whole.clone())], "it must be `application/vnd.oci")?;
    misplaced(&[("application/vnd.oci.image.layer.v1.tar", archive.clone())], "it must be")?;
    misplaced(&[(SOLO_MODULE, module.clone())], "the last of its layers (1)")?;
    misplaced(&[(OCI_LAYER, archive)], "not compressed with gzip")?;
    for (layers, words) in [
        (vec![("application/wasm", module.clone())], "is `application/wasm`; it must be"),
        (vec![(SOLO_MODULE, whole.clone()), (SOLO_CONFIG, b"{}".to_vec())], "compressed with gzip"),
        (
            vec![(OCI_LAYER, whole.clone()), (OCI_LAYER, gzip(&tar(&[("README", b"")])))],
            "holds no `plugin.wasm`",
        ),
        (vec![], "it has no layers"),
        (vec![(OCI_LAYER, gzip(&whole))], "no tar archive"),
        (vec![(OCI_LAYER, plugin(&gzip(&module)))], "the module is compressed with gzip"),
        (vec![(OCI_LAYER, plugin(b"<html>"))], "is not WebAssembly"),
        (vec![(OCI_LAYER, whole[..whole.len() / 2].to_vec())], "damaged"),
    ] {
        missing(&layers, words)?;
    }
    Ok(())
}

#[test]
fn the_checksums_of_manifest_and_module_are_distinguished() -> Outcome {
    let module = loadable("");
    let layout = Layout::of(OCI_MANIFEST, &[(OCI_LAYER, plugin(&module))]);
    let told = inspect(layout.path(), &["-o", "json"])?.expect(0)?.json()?;
    let index: Value =
        serde_json::from_slice(&fs::read(layout.path().join("index.json")).unwrap()).unwrap();
    let hex = |digest: &Value| digest.as_str().unwrap().trim_start_matches("sha256:").to_owned();
    let manifest = json!(hex(&index["manifests"][0]["digest"]));
    let own = json!(hex(&layout.blob("", &module)["digest"]));
    let told = &told["checksums"];
    assert_eq!([&told[0]["of"], &told[0]["sha256"]], [&json!("manifest"), &manifest]);
    assert!(told[0]["belongs"].as_str().unwrap().contains("oci://"));
    assert_eq!([&told[1]["of"], &told[1]["sha256"]], [&json!("module"), &own]);
    assert!(told[1]["belongs"].as_str().unwrap().contains("http"));
    Ok(())
}

#[test]
fn an_index_is_refused_with_the_fix() -> Outcome {
    let layout = Layout::new();
    let mut child = layout.manifest(OCI_MANIFEST, &[(OCI_LAYER, plugin(&loadable("")))]);
    let mut attestation =
        layout.manifest(OCI_MANIFEST, &[("application/vnd.in-toto+json", b"{}".to_vec())]);
    child["platform"] = json!({ "os": "linux", "architecture": "amd64" });
    attestation["platform"] = json!({ "os": "unknown", "architecture": "unknown" });
    let digest = child["digest"].as_str().unwrap().to_owned();
    let index = |manifests: &[&Value]| -> Outcome<Value> {
        let document = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": manifests,
        });
        layout.index(&[layout.document("application/vnd.oci.image.index.v1+json", &document)]);
        inspect(layout.path(), &["-o", "json"])?.expect(1)?.json()
    };
    let told = index(&[&attestation, &child])?;
    assert!(told["module"]["size"].is_u64(), "{told:#}");
    let because = told["because"][0].as_str().unwrap();
    assert!(
        because.contains("it is an index")
            && because.contains(&format!("pin that one: `@{digest}`")),
        "{because}"
    );
    assert_eq!(format!("sha256:{}", told["checksums"][0]["sha256"].as_str().unwrap()), digest);
    // Istio's library takes a manifest without a platform for one for linux/amd64.
    child.as_object_mut().unwrap().remove("platform");
    let told = index(&[&attestation, &child])?;
    assert_eq!(format!("sha256:{}", told["checksums"][0]["sha256"].as_str().unwrap()), digest);
    let told = index(&[&attestation])?;
    assert_eq!(told["because"][1], "it has no manifest for linux/amd64");
    assert_eq!(told["checksums"], json!([]));
    Ok(())
}

#[test]
fn one_of_several_images_must_be_chosen() -> Outcome {
    let layout = Layout::new();
    let mut good = layout.manifest(OCI_MANIFEST, &[(OCI_LAYER, plugin(&loadable("")))]);
    let mut bad = layout.manifest(OCI_MANIFEST, &[]);
    good["annotations"] = json!({ "org.opencontainers.image.ref.name": "good" });
    bad["annotations"] = json!({ "org.opencontainers.image.ref.name": "bad" });
    layout.index(&[good, bad]);
    inspect(layout.path(), &[])?
        .expect(2)?
        .stderr_contains("several images (`good`, `bad`): choose one with `--tag`")?;
    inspect(layout.path(), &["--tag", "good"])?.expect(0)?;
    inspect(layout.path(), &["--tag", "bad"])?.expect(1)?;
    inspect(layout.path(), &["--tag", "ugly"])?.expect(2)?.stderr_contains("no image `ugly`")?;
    Ok(())
}

/// `--tag` would name another version than the one that is inspected.
#[test]
fn a_tag_is_for_layouts() -> Outcome {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("a.wasm"), loadable(""))?;
    for subject in ["127.0.0.1:1/team/laststream", "a.wasm", "not-there"] {
        let said = laststream(folder.path(), ["inspect", "--tag", "2.0.0", subject])?.expect(64)?;
        said.stderr_contains("write a reference as `REF:TAG`")?;
    }
    Ok(())
}

#[test]
fn a_manifest_has_the_digest_by_which_the_index_names_it() -> Outcome {
    let layout = Layout::new();
    let manifest = layout.manifest(OCI_MANIFEST, &[(OCI_LAYER, plugin(&loadable("")))]);
    let digest = manifest["digest"].as_str().unwrap().to_owned();
    layout.index(&[manifest]);
    inspect(layout.path(), &[])?.expect(0)?;
    let blob = layout.path().join("blobs").join(digest.replace(':', "/"));
    fs::write(&blob, fs::read_to_string(&blob)?.replacen('{', "{ ", 1))?;
    let said = inspect(layout.path(), &[])?.expect(2)?;
    said.stderr_contains(&format!("`{digest}` is damaged"))?;
    Ok(())
}

#[test]
fn archives_are_as_good_as_folders() -> Outcome {
    let layout = Layout::of(OCI_MANIFEST, &[(OCI_LAYER, plugin(&loadable("")))]);
    let expected = inspect(layout.path(), &[])?.expect(0)?.stdout;
    let folder = tempfile::tempdir()?;
    for (name, compressed) in [("image.tar", false), ("image.tar.gz", true), ("Image.TGZ", true)] {
        layout.archive(&folder.path().join(name), compressed);
        assert_eq!(inspect(&folder.path().join(name), &[])?.expect(0)?.stdout, expected);
    }
    fs::write(folder.path().join("broken.tar"), "no archive")?;
    inspect(&folder.path().join("broken.tar"), &[])?
        .expect(2)?
        .stderr_contains("cannot be read as an archive")?;
    Ok(())
}

#[test]
fn a_damaged_layout_is_an_error_and_no_finding() -> Outcome {
    let layout = Layout::new();
    let manifest = layout.manifest(OCI_MANIFEST, &[(OCI_LAYER, plugin(&loadable("")))]);
    layout.index(std::slice::from_ref(&manifest));
    let layer = layout.blob(OCI_LAYER, &plugin(&loadable("")))["digest"]
        .as_str()
        .unwrap()
        .replace("sha256:", "blobs/sha256/");
    fs::write(layout.path().join(&layer), "something else")?;
    inspect(layout.path(), &[])?.expect(2)?.stderr_contains("is damaged")?;
    fs::remove_file(layout.path().join(&layer))?;
    inspect(layout.path(), &[])?.expect(2)?.stderr_contains("is missing")?;
    fs::write(layout.path().join("index.json"), "{")?;
    inspect(layout.path(), &[])?.expect(2)?.stderr_contains("cannot be read")?;
    Ok(())
}

/// A digest in a layout cannot lead to another file.
#[test]
fn digests_are_no_paths() -> Outcome {
    let layout = Layout::new();
    let secret = layout.path().join("secret");
    fs::write(&secret, "{}")?;
    layout
        .index(&[json!({ "mediaType": OCI_MANIFEST, "digest": "sha256:../../secret", "size": 2 })]);
    inspect(layout.path(), &[])?.expect(2)?.stderr_contains("is no digest")?;
    Ok(())
}

#[test]
fn an_oversized_layer_is_not_read() -> Outcome {
    let layout = Layout::new();
    let layer = json!({
        "mediaType": OCI_LAYER, "digest": format!("sha256:{}", "0".repeat(64)),
        "size": (256_u64 << 20) + 1,
    });
    let document = json!({ "schemaVersion": 2, "mediaType": OCI_MANIFEST, "layers": [layer] });
    layout.index(&[layout.document(OCI_MANIFEST, &document)]);
    let ran = inspect(layout.path(), &[])?.expect(1)?;
    assert!(ran.stdout.contains("no more than 268435456 are read"), "{}", ran.stdout);
    Ok(())
}
