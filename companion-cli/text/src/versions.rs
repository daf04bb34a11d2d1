//! The versions of other programs that this project is tested with, and those whose rules it knows.
//! This is the only list: docs/versions.md and the built-in CRDs are compared with it.

/// A release: major and minor.
pub type Release = (u32, u32);

/// The tested versions of Envoy, oldest first: the last patch of each minor version that is
/// published with V8, so that it runs Wasm modules.
pub const ENVOY: [(u32, u32, u32); 5] =
    [(1, 36, 4), (1, 37, 0), (1, 38, 2), (1, 39, 3), (1, 40, 0)];

/// A program whose releases have different rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    pub name: &'static str,
    pub oldest: Release,
    pub newest: Release,
    /// The version that the tests run.
    pub tested: &'static str,
}

/// Istio: its CRDs.
pub const ISTIO: Program =
    Program { name: "Istio", oldest: (1, 28), newest: (1, 31), tested: "1.31.0" };
/// Kubernetes: volumes and sidecars.
pub const KUBERNETES: Program =
    Program { name: "Kubernetes", oldest: (1, 29), newest: (1, 37), tested: "1.34.4" };
/// The Gateway API: its CRDs.
pub const GATEWAY_API: Program =
    Program { name: "Gateway API", oldest: (1, 3), newest: (1, 7), tested: "1.6" };
/// Envoy Gateway: its CRDs.
pub const ENVOY_GATEWAY: Program =
    Program { name: "Envoy Gateway", oldest: (1, 9), newest: (1, 9), tested: "1.9.1" };

/// The programs whose upgrades `lint` judges: the name in its option, the oldest known release, and
/// the newest one.
pub const UPGRADES: [(&str, Release, Release); 4] = [
    ("istio", ISTIO.oldest, ISTIO.newest),
    ("envoy", (ENVOY[0].0, ENVOY[0].1), (1, 40)),
    ("envoy-gateway", (1, 8), (1, 10)),
    ("kubernetes", KUBERNETES.oldest, KUBERNETES.newest),
];

/// The programs that contain Envoy, by their names in [`UPGRADES`]: the minor version of their
/// Envoy is theirs and this number. Both follow each release of Envoy with one of their own.
pub const WITH_ENVOY: [(&str, u32); 2] = [("istio", 8), ("envoy-gateway", 30)];

impl Program {
    pub const ALL: [Self; 4] = [ISTIO, KUBERNETES, GATEWAY_API, ENVOY_GATEWAY];

    /// The known release that is nearest to this one, if this one is not known.
    #[must_use]
    pub fn instead_of(&self, release: Release) -> Option<Release> {
        let nearest = release.clamp(self.oldest, self.newest);
        (nearest != release).then_some(nearest)
    }

    /// The known releases, as `1.28 to 1.31`.
    #[must_use]
    pub fn range(&self) -> String {
        let [oldest, newest] = [self.oldest, self.newest].map(text);
        if oldest == newest { oldest } else { format!("{oldest} to {newest}") }
    }
}

/// A release as `1.28`.
#[must_use]
pub fn text((major, minor): Release) -> String {
    format!("{major}.{minor}")
}

/// Reads a version such as `1.28`, `v1.28` or `1.28.3`; only its major and minor count.
///
/// # Errors
/// It is something else; the text says what to write.
pub fn release(text: &str) -> Result<Release, String> {
    let number = |part: &str| part.parse::<u32>().ok().filter(|_| !part.starts_with('+'));
    let mut parts = text.strip_prefix('v').unwrap_or(text).splitn(3, '.').map(number);
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(major), Some(minor)) => Ok((major, minor)),
        _ => Err("write major and minor, such as 1.29".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{ISTIO, release};

    #[test]
    fn a_release_is_major_and_minor() {
        for text in ["1.30", "v1.30", "1.30.4", "1.30.0-rc.1"] {
            assert_eq!(release(text), Ok((1, 30)), "{text}");
        }
        for text in ["", "1", "1.", "vv1.3", "new", "1.x", "+1.3", "1.99999999999"] {
            assert!(release(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_unknown_release_is_judged_by_the_nearest_one() {
        assert_eq!(ISTIO.instead_of(ISTIO.oldest), None);
        assert_eq!(ISTIO.instead_of((1, 2)), Some(ISTIO.oldest));
        assert_eq!(ISTIO.instead_of((2, 0)), Some(ISTIO.newest));
    }
}
