//! The output of `inspect` for images.

use serde_json::{Value, json};

use kit::Outcome;
use kit::command::CommandOutput;

use crate::cli::registry::{
    DOCKER_LAYER, DOCKER_MANIFEST, OCI_LAYER, OCI_MANIFEST, Registry, gzip, tar,
};
use crate::cli::support::{laststream, loadable};

const SOLO_MODULE: &str = "application/vnd.module.wasm.content.layer.v1+wasm";
const SOLO_CONFIG: &str = "application/vnd.module.wasm.config.v1+json";

fn inspect(registry: &Registry) -> Outcome<CommandOutput> {
    laststream(&std::env::temp_dir(), ["inspect", "-o", "json", &registry.image()])
}

fn plugin(module: &[u8]) -> Vec<u8> {
    gzip(&tar(&[("plugin.wasm", module)]))
}

#[test]
fn the_three_layouts_are_taken() -> Outcome {
    let module = loadable("");
    let (config, other) = (b"{}".to_vec(), gzip(&tar(&[("etc/passwd", b"")])));
    let images = [
        (OCI_MANIFEST, vec![(OCI_LAYER, plugin(&module))]),
        (DOCKER_MANIFEST, vec![(DOCKER_LAYER, plugin(&module))]),
        (OCI_MANIFEST, vec![(SOLO_CONFIG, config.clone()), (SOLO_MODULE, module.clone())]),
        (OCI_MANIFEST, vec![(SOLO_MODULE, module.clone()), (SOLO_CONFIG, config)]),
        (OCI_MANIFEST, vec![(OCI_LAYER, gzip(&tar(&[("./build/plugin.wasm", &module)])))]),
        (OCI_MANIFEST, vec![(OCI_LAYER, other), (OCI_LAYER, plugin(&module))]),
    ];
    for (row, (manifest, layers)) in images.into_iter().enumerate() {
        let told = inspect(&Registry::with_image(manifest, &layers)?)?.expect(0)?.json()?;
        assert_eq!(told["because"], json!([]), "row {row}, {manifest}");
    }
    Ok(())
}

#[test]
fn a_layout_that_no_proxy_takes_is_named() -> Outcome {
    let module = loadable("");
    let whole = plugin(&module);
    let archive = tar(&[("plugin.wasm", &module)]);
    for (is_found, layers, words) in [
        (true, vec![(DOCKER_LAYER, whole.clone())], "it must be `application/vnd.oci"),
        (true, vec![("application/vnd.oci.image.layer.v1.tar", archive.clone())], "it must be"),
        (true, vec![(SOLO_MODULE, module.clone())], "the last of its layers (1)"),
        (true, vec![(OCI_LAYER, archive)], "not compressed with gzip"),
        (false, vec![("application/wasm", module.clone())], "is `application/wasm`; it must be"),
        (
            false,
            vec![(SOLO_MODULE, whole.clone()), (SOLO_CONFIG, b"{}".to_vec())],
            "compressed with gzip",
        ),
        (
            false,
            vec![(OCI_LAYER, whole.clone()), (OCI_LAYER, gzip(&tar(&[("README", b"")])))],
            "holds no `plugin.wasm`",
        ),
        (false, vec![], "it has no layers"),
        (false, vec![(OCI_LAYER, gzip(&whole))], "no tar archive"),
        (false, vec![(OCI_LAYER, plugin(&gzip(&module)))], "the module is compressed with gzip"),
        (false, vec![(OCI_LAYER, plugin(b"<html>"))], "is not WebAssembly"),
        (false, vec![(OCI_LAYER, whole[..whole.len() / 2].to_vec())], "damaged"),
    ] {
        let told = inspect(&Registry::with_image(OCI_MANIFEST, &layers)?)?.expect(1)?.json()?;
        let (reasons, module) = (told["because"].to_string(), &told["module"]);
        assert!(reasons.contains(words), "`{words}` is not in {reasons}");
        // `inspect` also finds a module that is not where proxies look.
        let is_right = if is_found { module["size"].is_u64() } else { module.is_null() };
        assert!(is_right, "{words}: {told:#}");
    }
    Ok(())
}

#[test]
fn the_checksums_of_manifest_and_module_are_distinguished() -> Outcome {
    let module = loadable("");
    let registry = Registry::start()?;
    let manifest = registry.manifest(OCI_MANIFEST, &[(OCI_LAYER, plugin(&module))]);
    registry.tag(&manifest);
    let told = inspect(&registry)?.expect(0)?.json()?;
    let hex = |digest: &Value| digest.as_str().unwrap().trim_start_matches("sha256:").to_owned();
    let manifest = json!(hex(&registry.add(&manifest)["digest"]));
    let own = json!(hex(&registry.blob("", &module)["digest"]));
    let told = &told["checksums"];
    assert_eq!([&told[0]["of"], &told[0]["sha256"]], [&json!("manifest"), &manifest]);
    assert!(told[0]["belongs"].as_str().unwrap().contains("oci://"));
    assert_eq!([&told[1]["of"], &told[1]["sha256"]], [&json!("module"), &own]);
    assert!(told[1]["belongs"].as_str().unwrap().contains("http"));
    Ok(())
}

#[test]
fn an_index_is_refused_with_the_fix() -> Outcome {
    let registry = Registry::start()?;
    let image = |layer: (&str, Vec<u8>)| registry.add(&registry.manifest(OCI_MANIFEST, &[layer]));
    let mut child = image((OCI_LAYER, plugin(&loadable(""))));
    let mut attestation = image(("application/vnd.in-toto+json", b"{}".to_vec()));
    child["platform"] = json!({ "os": "linux", "architecture": "amd64" });
    attestation["platform"] = json!({ "os": "unknown", "architecture": "unknown" });
    let digest = child["digest"].as_str().unwrap().to_owned();
    let index = |manifests: &[&Value]| -> Outcome<Value> {
        registry.tag(&json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": manifests,
        }));
        inspect(&registry)?.expect(1)?.json()
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
fn an_oversized_layer_is_not_read() -> Outcome {
    let registry = Registry::start()?;
    let layer = json!({
        "mediaType": OCI_LAYER, "digest": format!("sha256:{}", "0".repeat(64)),
        "size": (256_u64 << 20) + 1,
    });
    registry.tag(&json!({ "schemaVersion": 2, "mediaType": OCI_MANIFEST, "layers": [layer] }));
    inspect(&registry)?.expect(1)?.stdout_contains("no more than 268435456 are read")?;
    Ok(())
}
