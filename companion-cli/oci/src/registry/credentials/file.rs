//! The files in which docker and podman keep credentials, or name the credential helpers.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;

use super::{FoundLogin, Login, Sources, helper, key};
use crate::image::is_docker_hub;
use laststream_base::foreign;
use laststream_base::parse_error::ParseError;

/// The limit in bytes; a larger file does not hold credentials.
const LARGEST: u64 = 4 << 20;

/// docker pads its base64, other tools do not.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

pub(super) struct File {
    path: PathBuf,
    content: Content,
}

/// The fields that hold credentials or name helpers. Docker writes many others.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Content {
    auths: BTreeMap<String, Option<Entry>>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

impl File {
    /// Reads a file; `None` if it does not exist or is empty.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, String> {
        let text = match foreign::read_named(path, LARGEST) {
            Err(error) if is_absence(error.kind()) => return Ok(None),
            read => read.map_err(|error| wrong(path, error))?,
        };
        if text.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        let content =
            serde_json::from_slice(&text).map_err(|error| wrong(path, ParseError::from(&error)))?;
        Ok(Some(Self { path: path.to_owned(), content }))
    }

    pub(super) fn find(
        &self,
        registry: &str,
        repository: &str,
        sources: &Sources,
    ) -> Result<Option<FoundLogin>, String> {
        let names = |known: &str| is_same_registry(known, registry);
        if let Some(name) =
            self.content.cred_helpers.iter().find_map(|(known, name)| names(known).then_some(name))
        {
            return self.login_of_helper(name, registry, sources); // docker asks no other source
        }
        if let Some((known, entry)) = self.best(registry, repository)
            && let Some(login) = self.login(known, entry)?
        {
            return Ok(Some(FoundLogin { login, source: format!("`{}`", self.path.display()) }));
        }
        match &self.content.creds_store {
            Some(name) if !name.is_empty() => self.login_of_helper(name, registry, sources),
            _ => Ok(None),
        }
    }

    fn login_of_helper(
        &self,
        name: &str,
        registry: &str,
        sources: &Sources,
    ) -> Result<Option<FoundLogin>, String> {
        let (helper, path) = (format!("docker-credential-{name}"), self.path.display());
        let login = helper::get_login(&helper, key(registry), sources).map_err(|problem| {
            format!(
                "the credential helper `{helper}`, which `{path}` names for `{registry}`, {problem}"
            )
        })?;
        let source = format!("`{helper}`, named in `{path}`");
        Ok(login.map(|login| FoundLogin { login, source }))
    }

    /// The entry for the longest part of `registry/repository`. Podman writes entries for parts,
    /// docker only for registries.
    fn best(&self, registry: &str, repository: &str) -> Option<(&str, &Entry)> {
        let entries = self.content.auths.iter().filter_map(|(known, entry)| {
            let entry = entry.as_ref().filter(|entry| !entry.is_empty())?;
            Some((covered(known, registry, repository)?, (known.as_str(), entry)))
        });
        entries.max_by_key(|(length, _)| *length).map(|(_, found)| found)
    }

    fn login(&self, known: &str, entry: &Entry) -> Result<Option<Login>, String> {
        let wrong = |problem: &str| {
            wrong(&self.path, format_args!("`auth` of `{known}` {problem}: log in again"))
        };
        let mut username = entry.username.clone().unwrap_or_default();
        let mut password = entry.password.clone().unwrap_or_default();
        if let Some(auth) = entry.auth.as_deref().filter(|auth| !auth.is_empty()) {
            let bytes = BASE64.decode(auth.trim()).map_err(|_| wrong("is not base64"))?;
            let text = String::from_utf8(bytes).map_err(|_| wrong("is not text"))?;
            let (name, word) = text
                .split_once(':')
                .ok_or_else(|| wrong("has no colon between name and password"))?;
            (username, password) = (name.to_owned(), word.trim_end_matches('\0').to_owned());
        }
        Ok(super::login(username, password, entry.identitytoken.clone()))
    }
}

fn is_absence(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn wrong(path: &Path, problem: impl Display) -> String {
    format!("cannot take credentials from `{}`: {problem}", path.display())
}

impl Entry {
    /// `docker login` with a credential store leaves an empty entry.
    fn is_empty(&self) -> bool {
        [&self.auth, &self.password, &self.identitytoken]
            .into_iter()
            .all(|value| value.as_deref().is_none_or(str::is_empty))
    }
}

/// The part of a name that docker compares: `https://host/v1/` and `host` are the same.
fn bare(known: &str) -> &str {
    let host = known
        .strip_prefix("https://")
        .or_else(|| known.strip_prefix("http://"))
        .unwrap_or(known)
        .trim_end_matches('/');
    host.strip_suffix("/v1").or_else(|| host.strip_suffix("/v2")).unwrap_or(host)
}

fn is_same_registry(known: &str, registry: &str) -> bool {
    let host = bare(known);
    host.eq_ignore_ascii_case(registry) || (is_docker_hub(host) && is_docker_hub(registry))
}

/// The length of the part of the repository that an entry is for; `None` if it is for another one.
fn covered(known: &str, registry: &str, repository: &str) -> Option<usize> {
    let (host, path) = bare(known).split_once('/').unwrap_or((bare(known), ""));
    let rest = repository.strip_prefix(path)?;
    (is_same_registry(host, registry)
        && (path.is_empty() || rest.is_empty() || rest.starts_with('/')))
    .then_some(path.len())
}
