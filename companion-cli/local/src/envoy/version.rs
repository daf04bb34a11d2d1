//! Versions of Envoy: three numbers, and which of them this project supports.

use std::fmt;
use std::str::FromStr;

use laststream_base::versions::ENVOY;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

/// The versions that this project is tested with, oldest first.
pub const SUPPORTED: [Version; ENVOY.len()] = {
    let mut all = [Version::new(0, 0, 0); ENVOY.len()];
    let mut index = 0;
    while index < all.len() {
        let (major, minor, patch) = ENVOY[index];
        all[index] = Version::new(major, minor, patch);
        index += 1;
    }
    all
};

/// The oldest of [`SUPPORTED`].
pub const OLDEST: Version = SUPPORTED[0];

/// The newest of [`SUPPORTED`].
pub const NEWEST: Version = SUPPORTED[SUPPORTED.len() - 1];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a version of Envoy: three numbers are expected, such as `{NEWEST}`")]
pub struct NotAVersion(pub String);

impl Version {
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for Version {
    type Err = NotAVersion;

    /// Reads `1.40.0`, or `v1.40.0` as release tags have it.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = text.strip_prefix('v').unwrap_or(text);
        let numbers: Vec<u32> = plain.split('.').map_while(|part| part.parse().ok()).collect();
        let [major, minor, patch] = numbers[..] else { return Err(NotAVersion(text.to_owned())) };
        let version = Self { major, minor, patch };
        // The standard library also reads `+1`, which is in no version, and `01`, which would be a
        // second name for `1`.
        let is_usual = version.to_string() == plain;
        is_usual.then_some(version).ok_or_else(|| NotAVersion(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_displayed_version_is_parsed_back(major: u32, minor: u32, patch: u32) {
            let version = Version::new(major, minor, patch);
            prop_assert_eq!(version.to_string().parse(), Ok(version));
            prop_assert_eq!(format!("v{version}").parse(), Ok(version));
        }

        #[test]
        fn a_parsed_version_is_displayed_unchanged(
            text in prop_oneof!["v?[0-9.+a-z-]{0,12}", any::<String>()],
        ) {
            if let Ok(version) = text.parse::<Version>() {
                prop_assert_eq!(version.to_string(), text.trim_start_matches('v'));
            }
        }
    }

    #[test]
    fn invalid_versions_are_refused() {
        for text in [
            "",
            "1",
            "1.40",
            "1.40.0.1",
            "1.40.x",
            "1.+4.0",
            " 1.40.0",
            "1.40.0-dev",
            "01.40.0",
            "1.40.99999999999",
            "vv1.40.0",
        ] {
            assert_eq!(text.parse::<Version>(), Err(NotAVersion(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn supported_versions_are_in_order() {
        assert!(SUPPORTED.is_sorted() && NEWEST < Version::new(2, 0, 0));
        assert_eq!((OLDEST.to_string(), NEWEST.to_string()), ("1.36.4".into(), "1.40.0".into()));
    }
}
