//! The rendered files.

use laststream_base::causes::Context as _;
use laststream_base::yaml::{self, Map};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub name: String,
    pub text: String,
    /// Whether it is an object for `kubectl apply`; patches and values are not.
    pub(crate) applies: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The files, in the order of their kinds.
    pub files: Vec<File>,
    /// Settings of the policy that this kind cannot provide.
    pub warnings: Vec<String>,
}

impl Rendered {
    /// The objects for `kubectl apply`, and the names of the other files.
    ///
    /// # Errors
    /// A file is not what this program writes.
    pub fn objects(&self) -> Result<(Vec<Value>, Vec<&str>), String> {
        let (applied, others): (Vec<_>, Vec<_>) = self.files.iter().partition(|file| file.applies);
        let mut objects = Vec::new();
        for file in applied {
            let documents = serde_saphyr::from_multiple::<Value>(&file.text);
            objects.extend(documents.context(format_args!("{}", file.name))?);
        }
        Ok((objects, others.iter().map(|file| file.name.as_str()).collect()))
    }
}

impl From<Vec<File>> for Rendered {
    fn from(files: Vec<File>) -> Self {
        Self { files, warnings: Vec::new() }
    }
}

/// The beginning of every file that is rendered from a policy, by any version of the program. It
/// distinguishes these files from others in the folder.
pub(crate) const MARK: &str = "Rendered by laststream";

/// The first line of a file that this version renders.
pub(crate) fn head() -> String {
    format!("{MARK} {}. Change the policy and render again.", env!("CARGO_PKG_VERSION"))
}

pub(crate) const GATEWAY_PATCH: &str = "gateway.patch.yaml";

/// The files that `render all` can write, whatever the policy. Its comparison ignores all others.
pub(crate) const FILES_OF_ALL: [&str; 18] = [
    "envoy-gateway.yaml",
    "envoy.service.conf",
    "envoy.yaml",
    "envoyfilter.yaml",
    GATEWAY_PATCH,
    "image-volume.yaml",
    "job.yaml",
    "kustomization.yaml",
    "laststream-gate.service",
    "laststream.compose.yaml",
    "lifecycle.gateway-chart.yaml",
    "lifecycle.native-sidecar.yaml",
    "lifecycle.pod.yaml",
    "overlay.yaml",
    "proxy-config.yaml",
    "trafficextension.yaml",
    "virtualservice.yaml",
    "wasmplugin.yaml",
];

/// A file with objects for `kubectl apply`.
pub(crate) fn objects(name: &str, about: &[String], documents: &[Map]) -> File {
    File { name: name.into(), text: text(about, documents), applies: true }
}

/// A file that is not for `kubectl apply`: a patch, values, or a bootstrap.
pub(crate) fn other(name: &str, about: &[String], document: Map) -> File {
    File { name: name.into(), text: text(about, &[document]), applies: false }
}

pub(crate) fn text(about: &[String], documents: &[Map]) -> String {
    let paragraphs: Vec<String> = std::iter::once(head()).chain(about.iter().cloned()).collect();
    yaml::write(&paragraphs, documents)
}
