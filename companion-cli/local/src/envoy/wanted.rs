//! The options of a search for an Envoy: which version, and where to look and download.

use std::path::PathBuf;

use super::{Places, Version, pins};
use laststream_base::env_vars::{self, LASTSTREAM_ENVOY, LASTSTREAM_OFFLINE, Lookup};

/// The Envoy that is wanted, and the places that it may come from.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub version: Version,
    /// The binary that must be used, if one is named.
    pub path: Option<PathBuf>,
    /// The pinned SHA-256 of the official release's binary, if there is one.
    pub release_sum: Option<&'static str>,
    /// Whether downloads are not allowed.
    pub offline: bool,
    pub places: Places,
}

impl Wanted {
    /// An Envoy of this version, as the variables of this process say.
    pub fn version(version: Version) -> Self {
        Self::from_vars(version, &env_vars::of_process)
    }

    /// An Envoy of this version, as the given variables say.
    pub fn from_vars(version: Version, lookup: Lookup<'_>) -> Self {
        Self {
            path: lookup(LASTSTREAM_ENVOY).map(PathBuf::from),
            offline: env_vars::is_on(LASTSTREAM_OFFLINE, lookup),
            ..Self::in_places(version, Places::from_vars(lookup))
        }
    }

    /// An Envoy of this version from these places, regardless of the variables of this process.
    pub fn in_places(version: Version, places: Places) -> Self {
        let release_sum = pins::of_release(version, &places.platform);
        Self { version, path: None, release_sum, offline: false, places }
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
        for (value, is_offline) in [("1", true), ("yes", true), ("0", false), ("False", false)] {
            assert_eq!(wanted(LASTSTREAM_OFFLINE, value).offline, is_offline, "{value}");
        }
        let none = Wanted::from_vars(NEWEST, &|_| None);
        assert_eq!((none.path, none.offline), (None, false));
    }
}
