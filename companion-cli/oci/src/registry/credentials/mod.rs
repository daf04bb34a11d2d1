//! The credentials for a registry. The first of these sources that knows the registry wins:
//!
//! 1. what the caller gives;
//! 2. docker's `config.json` in `DOCKER_CONFIG` or `~/.docker`: `credHelpers` for the registry,
//!    `auths`, `credsStore`;
//! 3. podman's file: `REGISTRY_AUTH_FILE` alone, or `containers/auth.json` in `XDG_RUNTIME_DIR`
//!    (where that is not set, its usual place), then in `XDG_CONFIG_HOME` or `~/.config`;
//! 4. none: anonymous.

mod file;
mod helper;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

pub use laststream_http::Secret;
use laststream_http::basic;

use crate::image::{Reference, is_docker_hub};
use laststream_base::env_vars::{
    self, DOCKER_CONFIG, HOME, Lookup, REGISTRY_AUTH_FILE, XDG_CONFIG_HOME, XDG_RUNTIME_DIR,
};

/// The time limit of a credential helper; some ask a cloud service.
const HELPER_TIME: Duration = Duration::from_secs(30);

/// Credentials for a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// A user name and a password.
    Password {
        /// The user name.
        username: String,
        /// The password.
        password: Secret,
    },
    /// A token that is exchanged for shorter-lived ones.
    IdentityToken {
        /// The user name; it may be empty.
        username: String,
        /// The token.
        token: Secret,
    },
}

impl Login {
    /// The value of an `Authorization` header.
    pub(super) fn basic(&self) -> Secret {
        match self {
            Self::Password { username, password } => basic(username, password),
            Self::IdentityToken { username, token } if username.is_empty() => {
                basic(TOKEN_USER, token)
            }
            Self::IdentityToken { username, token } => basic(username, token),
        }
    }
}

/// Credentials with their source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLogin {
    /// The credentials.
    pub login: Login,
    /// A file, a helper or the caller's own source, for messages.
    pub source: String,
}

/// Where credentials are looked for.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The caller's own credentials.
    pub given: Option<FoundLogin>,
    /// Docker's file.
    pub docker: Option<PathBuf>,
    /// Podman's files; the first that exists counts.
    pub podman: Vec<PathBuf>,
    /// The folders in which helpers are searched.
    pub search_path: Vec<PathBuf>,
    /// The time limit of a helper.
    pub helper_time: Duration,
}

impl Sources {
    /// No source, so no credentials.
    pub fn none() -> Self {
        Self {
            given: None,
            docker: None,
            podman: Vec::new(),
            search_path: Vec::new(),
            helper_time: HELPER_TIME,
        }
    }

    /// What is given, and the files that these variables name.
    pub fn from_vars(given: Option<FoundLogin>, lookup: Lookup<'_>) -> Self {
        let home = |folder: &str| lookup(HOME).map(|home| PathBuf::from(home).join(folder));
        Self {
            given,
            docker: lookup(DOCKER_CONFIG)
                .map(PathBuf::from)
                .or_else(|| home(".docker"))
                .map(|folder| folder.join("config.json")),
            podman: podman(lookup, home(".config")),
            search_path: env_vars::search_path(lookup),
            helper_time: HELPER_TIME,
        }
    }

    /// Rejects given credentials for several registries, because they are for one of them.
    pub fn check_registries<'r>(
        &self,
        references: impl IntoIterator<Item = &'r Reference>,
    ) -> Result<(), String> {
        let registries = references.into_iter().map(|reference| reference.registry.as_str());
        let registries: BTreeSet<&str> = registries.collect();
        if self.given.is_none() || registries.len() < 2 {
            return Ok(());
        }
        Err(format!(
            "user name and password are for one registry, but several are named: {}; `docker \
                login` to each",
            Vec::from_iter(registries).join(", ")
        ))
    }

    /// The credentials for this registry and repository. No error has a secret in it.
    ///
    /// # Errors
    /// A file is damaged, or a helper fails. Anonymous access instead would hide that.
    pub fn find(&self, registry: &str, repository: &str) -> Result<Option<FoundLogin>, String> {
        if let Some(login) = &self.given {
            return Ok(Some(login.clone()));
        }
        for path in self.docker.iter().chain(&self.podman) {
            let login = match file::File::read(path)? {
                Some(file) => file.find(registry, repository, self)?,
                None => None,
            };
            if login.is_some() {
                return Ok(login);
            }
        }
        Ok(None)
    }
}

/// Podman's files: the one that the user names; else the one that `podman login` writes, and the
/// one that podman reads next.
fn podman(lookup: Lookup<'_>, usual_config: Option<PathBuf>) -> Vec<PathBuf> {
    if let Some(path) = lookup(REGISTRY_AUTH_FILE) {
        return vec![path.into()];
    }
    let below = |folder: PathBuf| folder.join("containers/auth.json");
    let session = lookup(XDG_RUNTIME_DIR).map(|folder| below(folder.into()));
    let config = lookup(XDG_CONFIG_HOME).map(PathBuf::from).or(usual_config).map(below);
    [Some(session.unwrap_or_else(without_session)), config].into_iter().flatten().collect()
}

fn without_session() -> PathBuf {
    match rustix::process::getuid() {
        user if user.is_root() => "/run/containers/0/auth.json".into(),
        user => format!("/run/user/{user}/containers/auth.json").into(),
    }
}

/// The user name of a helper's reply in which the secret is an identity token.
const TOKEN_USER: &str = "<token>";

/// The login of an entry or a reply. An identity token takes precedence over a password.
fn login(username: String, password: String, token: Option<String>) -> Option<Login> {
    if let Some(token) = token.filter(|token| !token.is_empty()) {
        return Some(Login::IdentityToken { username, token: Secret::new(token) });
    }
    match (username.as_str(), password.as_str()) {
        ("", _) | (_, "") => None,
        (TOKEN_USER, _) => {
            Some(Login::IdentityToken { username: String::new(), token: Secret::new(password) })
        }
        _ => Some(Login::Password { username, password: Secret::new(password) }),
    }
}

/// The name under which docker keeps a registry's credentials.
fn key(registry: &str) -> &str {
    if is_docker_hub(registry) { "https://index.docker.io/v1/" } else { registry }
}

#[cfg(test)]
mod tests;
