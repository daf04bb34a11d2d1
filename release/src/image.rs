//! The images of a release: the programs for each platform, and the modules.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::layout::{Layout, index};
use crate::{
    CONFIG, Descriptor, Digest, INDEX, Image, Inputs, LAYER, MANIFEST, Manifest, ModuleKind,
    Packed, Platform, Program, VERSION, archive, certificates, compress,
};
use laststream_base::causes::Context as _;

/// The path of the program in the image, where the policy of a Job expects it.
const PROGRAM: &str = "laststream";
/// The path where TLS libraries look first.
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";
/// Not root, and not in any image's user list; Kubernetes accepts numbers only for `runAsNonRoot`.
const USER: &str = "65532:65532";

/// A program: an index with one image for each platform.
pub(crate) fn of_program(inputs: &Inputs, program: Program) -> Result<Vec<u8>, String> {
    let mut layout = Layout::default();
    let manifests: Vec<Value> = Platform::ALL
        .into_iter()
        .map(|platform| add_platform(&mut layout, inputs, program, platform))
        .collect::<Result<_, _>>()?;
    let mut index = index(&manifests);
    index["annotations"] = json!(annotations(program));
    let root = layout.add(INDEX, index.to_string().into_bytes());
    layout.pack(&root, VERSION)
}

/// Adds the image of a platform, and returns its entry in the index.
fn add_platform(
    layout: &mut Layout,
    inputs: &Inputs,
    program: Program,
    platform: Platform,
) -> Result<Value, String> {
    let bytes = inputs.program(program, platform)?;
    let certificates = certificates::pem();
    let certificates = Packed { path: CERTIFICATES, mode: 0o644, bytes: certificates.as_bytes() };
    let executable = Packed { path: PROGRAM, mode: 0o755, bytes: &bytes };
    let files = match program {
        Program::Whole => vec![certificates, executable],
        Program::Hook => vec![executable], // it speaks plain HTTP to its own pod only
    };
    let archive = archive(&files).context("the layer of an image")?;
    let layer = layout.add(LAYER, compress(&archive).context("the layer of an image")?);
    let config = layout.add(CONFIG, config(platform, &archive).to_string().into_bytes());
    let manifest = Manifest {
        schema_version: 2,
        media_type: Some(MANIFEST.to_owned()),
        config,
        layers: vec![layer],
        annotations: annotations(program),
    };
    let manifest =
        layout.add(MANIFEST, serde_json::to_vec(&manifest).context("the manifest of an image")?);
    let mut entry = json!(manifest);
    entry["platform"] = json!({ "architecture": platform.architecture(), "os": "linux" });
    Ok(entry)
}

fn config(platform: Platform, archive: &[u8]) -> Value {
    json!({
        "architecture": platform.architecture(),
        "os": "linux",
        "config": {
            "User": USER, "Entrypoint": [format!("/{PROGRAM}")], "Env": ["PATH=/"],
            "WorkingDir": "/",
        },
        "rootfs": { "type": "layers", "diff_ids": [Digest::of(archive)] },
    })
}

fn annotations(program: Program) -> BTreeMap<String, String> {
    let description = match program {
        Program::Whole => "The command line of laststream",
        Program::Hook => "The program of laststream for stop hooks and Jobs",
    };
    let mut annotations = ModuleKind::Module.annotations();
    annotations.extend([
        ("org.opencontainers.image.description".to_owned(), description.to_owned()),
        ("org.opencontainers.image.version".to_owned(), VERSION.to_owned()),
    ]);
    annotations
}

/// A module, with the digest that `laststream push` gives it and that `laststream version` prints
/// under this name.
pub(crate) fn of_module(
    inputs: &Inputs,
    name: &str,
    kind: ModuleKind,
    module: Result<&[u8], &'static str>,
) -> Result<Vec<u8>, String> {
    let module = module.context("this build of laststream-release has no module")?;
    let image = Image::of(module, kind.annotations()).context("the module's image")?;
    check_module(inputs, name, &image.digest)?;
    let mut layout = Layout::default();
    layout.add(LAYER, image.layer);
    layout.add(CONFIG, image.config);
    let root: Descriptor = layout.add(MANIFEST, image.manifest);
    layout.pack(&root, VERSION)
}

/// Checks that the released program carries the same module as this program.
fn check_module(inputs: &Inputs, name: &str, digest: &Digest) -> Result<(), String> {
    let version: Value = serde_json::from_slice(&inputs.run(&["version", "-o", "json"])?)
        .context("`laststream version -o json`")?;
    match version[name]["digest"].as_str() {
        Some(program) if program == digest.as_str() => Ok(()),
        program => Err(format!(
            "the released program has the module image `{}`, this one `{digest}`: build both from \
                the same sources",
            program.unwrap_or("none")
        )),
    }
}
