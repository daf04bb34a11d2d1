//! Names of images: `oci://host:5000/repository:tag@sha256:…`, and the short names of Docker Hub.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::causes::Context as _;
use crate::digest::Digest;

/// The name of the module in an image: Istio and Envoy Gateway look for a file of this name.
pub const FILE: &str = "plugin.wasm";

/// Docker Hub's name in references.
pub const DOCKER_HUB: &str = "docker.io";
const LONGEST_REPOSITORY: usize = 255;
const LONGEST_TAG: usize = 128;

/// A reference to an image in a registry, which may not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The host, and the port if one was given.
    pub registry: String,
    pub repository: String,
    pub tag: Option<String>,
    pub digest: Option<Digest>,
}

/// A text that is not a reference, or a reference of the wrong kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{reference}` {problem}")]
pub struct NotAReference {
    reference: String,
    problem: String,
}

impl Reference {
    /// Registry and repository, without tag and digest.
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }

    /// The tag to push to. The reference must have a tag and no digest.
    ///
    /// # Errors
    /// Says what to write instead.
    pub fn pushed_tag(&self) -> Result<&str, NotAReference> {
        let not = |problem: String| Err(NotAReference { reference: self.to_string(), problem });
        match (&self.tag, &self.digest) {
            (_, Some(digest)) => not(format!(
                "has a digest, but what is pushed decides on its digest itself: leave `@{digest}` \
                    off"
            )),
            (None, None) => not(format!("has no tag: write `{}:1.0.0`", self.name())),
            (Some(tag), None) => Ok(tag),
        }
    }

    /// The version to ask a registry for: the digest, or else the tag, or else `latest`.
    pub fn version(&self) -> &str {
        self.digest.as_ref().map(Digest::as_str).or(self.tag.as_deref()).unwrap_or("latest")
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        self.digest.as_ref().map_or(Ok(()), |digest| write!(f, "@{digest}"))
    }
}

impl FromStr for Reference {
    type Err = NotAReference;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map_err(|problem| NotAReference {
            reference: text.chars().take(400).collect(),
            problem,
        })
    }
}

fn parse(text: &str) -> Result<Reference, String> {
    let text = match text.split_once("://") {
        Some(("oci", rest)) => rest,
        Some((scheme, _)) => {
            return Err(format!(
                "begins with `{scheme}://`: only `oci://`, or nothing, may stand in front"
            ));
        }
        None => text,
    };
    let (text, digest) = match text.split_once('@') {
        Some((text, digest)) => {
            let digest = digest.parse::<Digest>().context("has an invalid digest")?;
            (text, Some(digest))
        }
        None => (text, None),
    };
    let (registry, rest) = split_registry(text)?;
    let (repository, tag) = match rest.split_once(':') {
        Some((repository, tag)) => (repository, Some(check_tag(tag)?)),
        None => (rest, None),
    };
    check_repository(&registry, repository)?;
    let official = registry == DOCKER_HUB && !repository.contains('/');
    let repository = if official { format!("library/{repository}") } else { repository.to_owned() };
    Ok(Reference { registry, repository, tag, digest })
}

/// The part before the first slash is a registry if it could not be a repository: it has a dot or a
/// colon, or is `localhost`.
fn split_registry(text: &str) -> Result<(String, &str), String> {
    let hub = DOCKER_HUB.to_owned();
    match text.split_once('/') {
        _ if text.is_empty() => {
            Err("is empty: write `registry.example.com/team/laststream:1.0.0`".to_owned())
        }
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => {
            let registry = first.to_ascii_lowercase();
            if !is_registry(&registry) {
                return Err(format!(
                    "has the registry `{first}`, which is not a host name or address with an \
                        optional port"
                ));
            }
            Ok((if is_docker_hub(&registry) { hub } else { registry }, rest))
        }
        _ => Ok((hub, text)),
    }
}

pub fn is_docker_hub(host: &str) -> bool {
    matches!(
        host,
        DOCKER_HUB | "index.docker.io" | "registry-1.docker.io" | "registry.hub.docker.com"
    )
}

fn is_registry(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
    };
    let is_port = |port: &str| !port.starts_with(['0', '+']) && port.parse::<u16>().is_ok();
    let is_host = match address {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => host.split('.').all(is_label),
    };
    is_host && port.is_none_or(is_port)
}

fn check_repository(registry: &str, repository: &str) -> Result<(), String> {
    if repository.is_empty() {
        return Err(format!("names no repository: write `{registry}/laststream`"));
    }
    if repository.len() > LONGEST_REPOSITORY {
        return Err(format!("has a repository of more than {LONGEST_REPOSITORY} characters"));
    }
    if repository.split('/').all(is_component) {
        return Ok(());
    }
    let lower = repository.to_lowercase();
    if lower != repository && lower.split('/').all(is_component) {
        return Err(format!(
            "has the repository `{repository}` with upper-case letters, which registries refuse: \
                write `{lower}`"
        ));
    }
    Err(format!(
        "has the repository `{repository}`: its parts are lower-case letters and digits, with \
            single `.`, `_`, `__` or any `-` between them"
    ))
}

/// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`
fn is_component(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_separator = |separator: &str| {
        matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-')
    };
    text.bytes().next().is_some_and(is_plain)
        && text.bytes().last().is_some_and(is_plain)
        && text
            .split(|character: char| character.is_ascii() && is_plain(character as u8))
            .all(is_separator)
}

fn check_tag(tag: &str) -> Result<String, String> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let begins = tag.bytes().next().is_some_and(is_word);
    if begins
        && tag.len() <= LONGEST_TAG
        && tag.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
    {
        return Ok(tag.to_owned());
    }
    let tag: String = tag.chars().take(LONGEST_TAG + 1).collect();
    Err(format!(
        "has the tag `{tag}`: up to {LONGEST_TAG} letters, digits, `_`, `.` and `-` are allowed, \
            not beginning with `.` or `-`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn parts(text: &str) -> (String, String, Option<String>, bool) {
        let reference: Reference = text.parse().unwrap_or_else(|error| panic!("{error}"));
        (reference.registry, reference.repository, reference.tag, reference.digest.is_some())
    }

    fn error(text: &str) -> String {
        text.parse::<Reference>()
            .map_or_else(|error| error.to_string(), |reference| panic!("{reference:?}"))
    }

    #[test]
    fn every_form_of_reference_is_parsed() {
        for (text, registry, repository, tag) in [
            ("oci://ghcr.io/team/laststream:1.0.0", "ghcr.io", "team/laststream", Some("1.0.0")),
            ("ghcr.io/a/b/c__d/e-f---g/h.i", "ghcr.io", "a/b/c__d/e-f---g/h.i", None),
            ("localhost/x:1", "localhost", "x", Some("1")),
            ("localhost:5000/x", "localhost:5000", "x", None),
            ("127.0.0.1:5000/x:v1", "127.0.0.1:5000", "x", Some("v1")),
            ("[::1]:5000/x:v1", "[::1]:5000", "x", Some("v1")),
            ("[2001:db8::1]/x:v1", "[2001:db8::1]", "x", Some("v1")),
            ("registry:5000/x", "registry:5000", "x", None),
            ("GHCR.io/x", "ghcr.io", "x", None),
            ("laststream:1", "docker.io", "library/laststream", Some("1")),
            ("team/laststream:1", "docker.io", "team/laststream", Some("1")),
            ("docker.io/team/laststream", "docker.io", "team/laststream", None),
            ("index.docker.io/laststream", "docker.io", "library/laststream", None),
        ] {
            let (registry, repository) = (registry.to_owned(), repository.to_owned());
            let mut expected = (registry, repository, tag.map(str::to_owned), false);
            assert_eq!(parts(text), expected, "{text}");
            expected.3 = true;
            assert_eq!(parts(&format!("{text}@{DIGEST}")), expected, "{text} with a digest");
            let again: Reference = text.parse().unwrap();
            assert_eq!(again.to_string().parse(), Ok(again), "{text}");
        }
    }

    #[test]
    fn errors_name_the_problem_and_the_fix() {
        assert_eq!(
            error("ghcr.io/Team/Laststream:1"),
            "`ghcr.io/Team/Laststream:1` has the repository `Team/Laststream` with upper-case \
                letters, which registries refuse: write \
             `team/laststream`"
        );
        for (text, says) in [
            ("", "is empty"),
            ("oci://", "is empty"),
            ("https://ghcr.io/x", "only `oci://`"),
            ("docker://ghcr.io/x", "begins with `docker://`"),
            ("ghcr.io/", "names no repository"),
            ("ghcr.io/:1", "names no repository"),
            ("ghcr.io/a//b", "has the repository"),
            ("ghcr.io/a_-b", "has the repository"),
            ("ghcr.io/-a", "has the repository"),
            ("ghcr.io/a:", "has the tag"),
            ("ghcr.io/a:.b", "has the tag"),
            ("ghcr.io/a:b:c", "has the tag"),
            ("ghcr.io/a:ä", "has the tag"),
            ("ghcr.io/ä:b", "has the repository"),
            ("ghcr.io/a@sha256:123", "no digest"),
            ("ghcr.io/a@", "no digest"),
            ("localhost:0/a", "has the registry"),
            ("localhost:99999/a", "has the registry"),
            ("localhost:/a", "has the registry"),
            ("[::1/a", "has the registry"),
            ("[::1]5000/a", "has the registry"),
            ("ghcr..io/a", "has the registry"),
            ("user@ghcr.io/a", "no digest"),
        ] {
            assert!(error(text).contains(says), "{text}: {}", error(text));
        }
        assert!(error(&format!("ghcr.io/{}", "a".repeat(256))).contains("more than 255"));
        assert!(error(&format!("ghcr.io/a:{}", "a".repeat(129))).contains("has the tag"));
    }

    #[test]
    fn a_push_needs_a_tag_and_no_digest() {
        let pushed = |text: &str| {
            text.parse::<Reference>()
                .unwrap()
                .pushed_tag()
                .map(str::to_owned)
                .map_err(|error| error.to_string())
        };
        assert_eq!(pushed("ghcr.io/a:1"), Ok("1".to_owned()));
        assert_eq!(
            pushed("ghcr.io/a"),
            Err("`ghcr.io/a` has no tag: write `ghcr.io/a:1.0.0`".to_owned())
        );
        assert!(pushed(&format!("ghcr.io/a:1@{DIGEST}")).unwrap_err().contains("leave `@sha256:"));
    }

    proptest::proptest! {
        #[test]
        fn parsing_never_panics_and_references_round_trip(text in "\\PC{0,80}") {
            if let Ok(reference) = text.parse::<Reference>() {
                assert_eq!(reference.to_string().parse(), Ok(reference));
            }
        }
    }
}
