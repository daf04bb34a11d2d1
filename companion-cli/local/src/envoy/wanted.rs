//! The options of a search for an Envoy: which version, and where to look and download.

use std::path::PathBuf;

use super::{EnvoySourceError, Places, Version, pins};
use laststream_base::env_vars::{self, LASTSTREAM_ENVOY, LASTSTREAM_OFFLINE, Lookup};

/// The Envoy that is wanted, and the places that it may come from.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The version it must have.
    pub version: Version,
    /// The binary that must be used, if one is named.
    pub path: Option<PathBuf>,
    /// The SHA-256 that the binary must have, in small hexadecimal letters. It replaces the pinned
    /// one of the release.
    pub sha256: Option<String>,
    /// Whether downloads are not allowed.
    pub offline: bool,
    /// The places to search.
    pub places: Places,
}

impl Wanted {
    /// An Envoy of this version, as the variables of this process say.
    #[must_use]
    pub fn version(version: Version) -> Self {
        Self::from_vars(version, &env_vars::of_process)
    }

    /// An Envoy of this version, as the given variables say.
    #[must_use]
    pub fn from_vars(version: Version, lookup: Lookup<'_>) -> Self {
        Self {
            path: lookup(LASTSTREAM_ENVOY).map(PathBuf::from),
            offline: env_vars::is_on(LASTSTREAM_OFFLINE, lookup),
            ..Self::in_places(version, Places::from_vars(lookup))
        }
    }

    /// An Envoy of this version from these places, regardless of the variables of this process.
    #[must_use]
    pub fn in_places(version: Version, places: Places) -> Self {
        Self { version, path: None, sha256: None, offline: false, places }
    }

    /// The SHA-256 that a release must have.
    pub(super) fn release_sum(&self) -> Option<&str> {
        self.sha256.as_deref().or_else(|| pins::of_release(self.version, &self.places.platform))
    }

    /// Refuses a file with another SHA-256 than the user asked for.
    pub(super) fn check_sum(
        &self,
        file: &str,
        sum: impl FnOnce() -> Result<String, EnvoySourceError>,
    ) -> Result<(), EnvoySourceError> {
        let Some(pinned) = &self.sha256 else { return Ok(()) };
        let found = sum()?;
        if found == *pinned {
            Ok(())
        } else {
            Err(EnvoySourceError::Checksum { file: file.to_owned(), found, pinned: pinned.clone() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envoy::NEWEST;

    #[test]
    fn variables_set_the_options() {
        let wanted = |name: &'static str, value: &'static str| {
            Wanted::from_vars(NEWEST, &move |question| (question == name).then(|| value.into()))
        };
        assert_eq!(wanted(LASTSTREAM_ENVOY, "/opt/envoy").path, Some("/opt/envoy".into()));
        assert!(
            wanted(LASTSTREAM_OFFLINE, "1").offline && wanted(LASTSTREAM_OFFLINE, "yes").offline
        );
        assert!(
            !wanted(LASTSTREAM_OFFLINE, "0").offline
                && !wanted(LASTSTREAM_OFFLINE, "False").offline
        );
        let none = Wanted::from_vars(NEWEST, &|_| None);
        assert_eq!((none.path, none.offline), (None, false));
    }
}
