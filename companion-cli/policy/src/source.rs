//! The values of `module`: an image, a download, a file.

use crate::error::PolicyProblem;
use crate::placement::{Controller, Placement};
use laststream_base::digest::is_hex;
use laststream_base::image_reference::{FILE, NotAReference, Reference};

/// The mount path of the image volume with the module, in the proxy's container.
pub const MODULE_FOLDER: &str = "/opt/laststream";
/// The mount path of the image volume with the frame filter's module.
pub const FRAMES_FOLDER: &str = "/opt/laststream-frames";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModuleLocation {
    /// An image in a registry, pinned to its manifest.
    Image {
        /// Host and repository, without `oci://`, tag and digest.
        repository: String,
        /// The tag in `module`, for comments only; the digest is the reference.
        tag: Option<String>,
        digest: String,
    },
    /// An image that kubelet mounts into the proxy, pinned to its manifest.
    Mounted {
        /// The image: `HOST/REPOSITORY@sha256:…`.
        reference: String,
        /// The tag in `module`, for comments only; the digest is the reference.
        tag: Option<String>,
        path: String,
    },
    /// A file behind HTTP, pinned to its content.
    Download {
        url: String,
        checksum: String,
    },
    File(String),
}

impl ModuleLocation {
    /// The address as Istio's agent and Envoy Gateway understand it.
    pub fn url(&self) -> String {
        match self {
            Self::Image { repository, digest, .. } => format!("oci://{repository}@sha256:{digest}"),
            Self::Download { url, .. } => url.clone(),
            Self::Mounted { path, .. } | Self::File(path) => path.clone(),
        }
    }

    /// The path of the file in the proxy, if the module is a file there.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Mounted { path, .. } | Self::File(path) => Some(path),
            Self::Image { .. } | Self::Download { .. } => None,
        }
    }

    /// Rejects a relative path, because a proxy runs elsewhere. An Envoy without a mesh may be
    /// started in the file's folder.
    pub(super) fn reachable(self, placement: &Placement) -> Result<Self, PolicyProblem> {
        let is_anywhere = placement.facts().controller == Controller::None;
        match &self {
            Self::File(path) if !path.starts_with('/') && !is_anywhere => Err(of_module(format!(
                "`{path}` is a relative path, and the proxy runs elsewhere: write the path of \
                        the file in the proxy, such as `{MODULE_FOLDER}/{FILE}`, or \
                        `oci://HOST/REPOSITORY:TAG`"
            ))),
            _ => Ok(self),
        }
    }

    /// The same module, its image mounted by kubelet in this folder.
    pub(super) fn mounted(self, folder: &str) -> Self {
        match self {
            Self::Image { repository, tag, digest } => Self::Mounted {
                reference: format!("{repository}@sha256:{digest}"),
                tag,
                path: format!("{folder}/{FILE}"),
            },
            other => other,
        }
    }

    /// The value of a field `sha256`: an image's manifest digest, or a download's checksum.
    pub fn sha256(&self) -> Option<&str> {
        match self {
            Self::Image { digest, .. } => Some(digest),
            Self::Download { checksum, .. } => Some(checksum),
            Self::Mounted { .. } | Self::File(_) => None,
        }
    }
}

/// The module that an image must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wanted {
    Module,
    FrameFilter,
}

/// Finds the digest of `HOST/REPOSITORY:TAG` in its registry: `sha256:` and 64 hexadecimal digits.
/// It may refuse an image that does not hold the wanted module.
pub type Resolve<'a> = &'a dyn Fn(&str, Wanted) -> Result<String, String>;

/// Reads `module` and `digest`. Errors name the field.
pub(super) fn read(
    module: &str,
    digest: Option<&str>,
    wanted: Wanted,
    resolve: Resolve<'_>,
) -> Result<ModuleLocation, PolicyProblem> {
    let digest = digest.map(|digest| hex("digest", digest)).transpose()?;
    if let Some(image) = module.strip_prefix("oci://") {
        return read_image(image, digest, &|name| resolve(name, wanted));
    }
    if module.starts_with("https://") || module.starts_with("http://") {
        return read_download(module, digest);
    }
    read_file(module, digest.is_some())
}

fn read_image(
    image: &str,
    given: Option<String>,
    resolve: &dyn Fn(&str) -> Result<String, String>,
) -> Result<ModuleLocation, PolicyProblem> {
    let (name, pinned) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(hex("module", digest)?)),
        None => (image, None),
    };
    let (repository, tag) = split_tag(name).map_err(of_module)?;
    let digest = match (pinned, given) {
        (Some(pinned), Some(given)) if pinned != given => {
            return Err(of_digest(format!(
                "sha256:{given} is not the digest in `module`, sha256:{pinned}: keep one of \
                        them"
            )));
        }
        (Some(digest), _) | (None, Some(digest)) => digest,
        (None, None) if tag.is_none() => {
            return Err(of_module(format!(
                "`oci://{name}` has no tag: write `oci://{name}:1.0.0`"
            )));
        }
        (None, None) => resolved(name, resolve)?,
    };
    Ok(ModuleLocation::Image { repository, tag, digest })
}

/// Host and repository as they are written, and the tag.
fn split_tag(name: &str) -> Result<(String, Option<String>), String> {
    if !name.contains('/') || name.contains("://") {
        return Err(format!("`oci://{name}` is not `oci://HOST/REPOSITORY:TAG`"));
    }
    let reference: Reference = name.parse().map_err(|error: NotAReference| error.to_string())?;
    let end = reference.tag.as_ref().map_or(0, |tag| tag.len() + 1);
    let repository = name.get(..name.len() - end).unwrap_or(name).to_owned();
    Ok((repository, reference.tag))
}

/// Asks the registry for the digest of a tag. A floating tag is never rendered, so that the
/// reviewed module is the one that runs.
fn resolved(
    name: &str,
    resolve: &dyn Fn(&str) -> Result<String, String>,
) -> Result<String, PolicyProblem> {
    let digest = resolve(name).map_err(of_module)?;
    hex("module", &digest).map_err(|problem| {
        of_module(format!("the registry's digest of `{name}`: {}", problem.message))
    })
}

/// The image with the tag that `module` names beside a `digest`, which alone is used.
pub(super) fn unused_tag(module: &str, digest: Option<&str>) -> Option<(String, String)> {
    let image = module.strip_prefix("oci://")?;
    let (_, tag) = split_tag(image).ok()?;
    tag.and(digest).map(|digest| (image.to_owned(), digest.to_owned()))
}

fn read_download(url: &str, digest: Option<String>) -> Result<ModuleLocation, PolicyProblem> {
    let authority = url
        .split_once("://")
        .map_or("", |(_, rest)| rest)
        .split(['/', '?', '#'])
        .next()
        .unwrap_or_default();
    if authority.contains('@') {
        return Err(of_module(
            "has credentials in its address, and what is rendered can be read by \
                many: serve it without",
        ));
    }
    if authority.is_empty() || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(of_module(format!(
            "`{url}` is not an address: no host, or characters that must be escaped"
        )));
    }
    match digest {
        Some(checksum) => Ok(ModuleLocation::Download { url: url.to_owned(), checksum }),
        None => Err(of_digest(
            "is required for a download: `sha256:` and the checksum of the .wasm \
                file (`sha256sum plugin.wasm`)",
        )),
    }
}

fn read_file(path: &str, has_digest: bool) -> Result<ModuleLocation, PolicyProblem> {
    if let Some((scheme, _)) = path.split_once("://") {
        return Err(of_module(format!(
            "`{scheme}://` is not known: write `oci://…`, `https://…`, or the path of a file"
        )));
    }
    if !path.ends_with(".wasm") {
        return Err(of_module(format!(
            "`{path}` is no .wasm file; is it an image? write `oci://{path}`"
        )));
    }
    if path.chars().any(char::is_control) {
        return Err(of_module("has control characters in its path"));
    }
    if has_digest {
        return Err(of_digest(
            "says nothing about a local file, which Envoy reads as it is: take it out",
        ));
    }
    Ok(ModuleLocation::File(path.to_owned()))
}

fn of_module(message: impl Into<String>) -> PolicyProblem {
    PolicyProblem::new("module", message)
}

fn of_digest(message: impl Into<String>) -> PolicyProblem {
    PolicyProblem::new("digest", message)
}

fn hex(field: &str, digest: &str) -> Result<String, PolicyProblem> {
    let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
    if is_hex(hex) {
        Ok(hex.to_owned())
    } else {
        let message = "is not a digest: `sha256:` and 64 hexadecimal digits in lowercase letters";
        Err(PolicyProblem::new(field, format!("`{digest}` {message}")))
    }
}

#[cfg(test)]
mod tests {
    use super::{ModuleLocation, PolicyProblem, Wanted};

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn read(
        module: &str,
        digest: Option<&str>,
        resolve: &dyn Fn(&str, Wanted) -> Result<String, String>,
    ) -> Result<ModuleLocation, PolicyProblem> {
        super::read(module, digest, Wanted::Module, resolve)
    }

    fn no_registry(_: &str, _: Wanted) -> Result<String, String> {
        Err("no registry here".into())
    }

    #[test]
    fn every_form_is_pinned() {
        let reference = format!("sha256:{HEX}");
        for (module, digest, url) in [
            (
                format!("oci://ghcr.io/a/b@{reference}"),
                None,
                format!("oci://ghcr.io/a/b@{reference}"),
            ),
            (
                format!("oci://127.0.0.1:5000/a:1.0@{reference}"),
                None,
                format!("oci://127.0.0.1:5000/a@{reference}"),
            ),
            (
                "oci://[::1]:5000/a/b:v1".into(),
                Some(reference.as_str()),
                format!("oci://[::1]:5000/a/b@{reference}"),
            ),
            (
                "https://example.com/plugin.wasm".into(),
                Some(HEX),
                "https://example.com/plugin.wasm".into(),
            ),
        ] {
            let source = read(&module, digest, &no_registry).expect(&module);
            assert_eq!(source.url(), url);
            assert_eq!(source.sha256(), Some(HEX));
        }
        assert_eq!(read("/a.wasm", None, &no_registry), Ok(ModuleLocation::File("/a.wasm".into())));
        let location = read("oci://ghcr.io/a/b:1", None, &|name, _| {
            Ok(format!("sha256:{}{}", &HEX[..63], name.len() % 10))
        })
        .expect("resolved");
        assert_eq!(location.sha256().map(|hex| &hex[..63]), Some(&HEX[..63]));
    }

    #[test]
    fn errors_about_a_module_name_the_fix() {
        let other = format!("sha256:{}", "0".repeat(64));
        for (module, digest, field, expected) in [
            ("oci://ghcr.io/a/b:latest", None, "module", "no registry here"),
            ("oci://ghcr.io/a/b", None, "module", "has no tag: write `oci://ghcr.io/a/b:1.0.0`"),
            ("oci://ghcr.io/a/b@sha256:12", None, "module", "64 hexadecimal"),
            (
                &format!("oci://ghcr.io/a/b@sha256:{HEX}"),
                Some(other.as_str()),
                "digest",
                "keep one",
            ),
            ("oci://ghcr.io/A/b:1", Some(HEX), "module", "write `a/b`"),
            ("oci://b", Some(HEX), "module", "HOST/REPOSITORY"),
            ("oci://oci://ghcr.io/a", Some(HEX), "module", "HOST/REPOSITORY"),
            ("oci://h/b:a b", Some(HEX), "module", "has the tag `a b`"),
            ("oci://ghcr.io/a..b:1", Some(HEX), "module", "has the repository `a..b`"),
            ("oci://ghcr.io:0/a:1", Some(HEX), "module", "has the registry `ghcr.io:0`"),
            ("https://u:p@h/x.wasm", Some(HEX), "module", "credentials"),
            ("https://h/x.wasm", None, "digest", "sha256sum"),
            ("https:///x.wasm", Some(HEX), "module", "no host"),
            ("ftp://h/x.wasm", None, "module", "`ftp://`"),
            ("ghcr.io/a/b:1", None, "module", "write `oci://ghcr.io/a/b:1`"),
            ("/x.wasm", Some(HEX), "digest", "take it out"),
        ] {
            let PolicyProblem { path: at, message, .. } =
                read(module, digest, &no_registry).expect_err(module);
            assert!(at == field && message.contains(expected), "{module}: {at}: {message}");
            assert!(!message.contains("u:p"), "{message}");
        }
    }
}
