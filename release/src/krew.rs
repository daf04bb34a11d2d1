//! The manifest with which krew, the package manager of kubectl's plugins, installs the program as
//! `kubectl laststream`.

use serde_json::{Value, json};

use crate::files::{Files, download};
use crate::{Platform, VERSION, program_archive, yaml};

pub(crate) fn manifest(files: &Files) -> Result<String, String> {
    let platforms: Vec<Value> =
        Platform::ALL.into_iter().filter_map(|platform| entry(platform, files)).collect();
    let plugin = json!({
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": { "name": "laststream" },
        "spec": {
            "version": format!("v{VERSION}"),
            "homepage": env!("CARGO_PKG_REPOSITORY"),
            "shortDescription": "Drain Istio and Envoy without losing requests",
            "description": "Renders and checks the manifests of laststream, the Envoy filter that \
                counts streams in flight,\n\
                and asks the gates of one pod or of many: `kubectl laststream render`, `lint`, \
                `status`, `rollout`.\n",
            "platforms": platforms,
        },
    });
    let yaml::Node::Map(plugin) = yaml::Node::from(&plugin) else {
        return Err("the manifest of the plugin is no object".to_owned());
    };
    Ok(yaml::write_map(&plugin))
}

fn entry(platform: Platform, files: &Files) -> Option<Value> {
    let archive = program_archive(platform);
    let digest = files.digest(&archive)?;
    Some(json!({
        "selector": { "matchLabels": { "os": "linux", "arch": platform.architecture() } },
        "uri": download(&archive),
        "sha256": digest.hex(),
        "files": [{ "from": "laststream", "to": "." }, { "from": "LICENSE", "to": "." }],
        "bin": "laststream",
    }))
}
