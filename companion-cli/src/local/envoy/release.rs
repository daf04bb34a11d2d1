//! Envoy's official releases: one binary for each machine.
//!
//! The server's own list of checksums is not used, because an attacker who changes the binary there
//! can change the list. The binary must have a SHA-256 that is known beforehand: pinned here for
//! the supported versions, else named by the user. Mirrors need no trust.

use super::download::Client;
use super::{EnvoySourceError, FetchedBinary, Wanted};
use crate::base::http::url::Url;
use crate::base::progress::Progress;
use std::path::Path;

/// Fetches the binary into a folder.
pub(crate) fn fetch(
    wanted: &Wanted,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<FetchedBinary, EnvoySourceError> {
    let places = &wanted.places;
    let Some(file) = places.platform.release_file(wanted.version) else {
        return Err(EnvoySourceError::NoBuild(places.platform.clone()));
    };
    let Some(pinned) = wanted.release_sum() else { return Err(EnvoySourceError::NoPin { file }) };
    let url = format!("{}/v{}/{file}", places.mirror, wanted.version);
    let file = shown(&url);
    let binary = folder.join("envoy");
    let found = Client::new(places)
        .file(&url, &binary, progress)
        .map_err(|error| EnvoySourceError::Http { url: file.clone(), error })?;
    if found != pinned {
        return Err(EnvoySourceError::Checksum { file, found, pinned: pinned.to_owned() });
    }
    Ok(FetchedBinary { binary, sha256: found, file })
}

/// An address without the user and password that a mirror may have in it. A text that cannot be
/// parsed may have them anywhere, so it is not shown.
fn shown(url: &str) -> String {
    Url::parse_with_login(url).map_or_else(
        || "the address in LASTSTREAM_ENVOY_MIRROR".to_owned(),
        |(url, _)| url.to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(
            shown("https://me:secret@mirror.test:8080/a/b@c"),
            "https://mirror.test:8080/a/b@c"
        );
        assert_eq!(shown("https://mirror.test/a"), "https://mirror.test/a");
        for unclear in [
            "https://me:secr/et@mirror.test/a",
            "me:secret@mirror.test/a",
            "https:/me:secret@mirror.test/a",
        ] {
            let shown = shown(unclear);
            assert!(!shown.contains("secr") && !shown.contains("et@"), "{unclear}: {shown}");
        }
    }
}
