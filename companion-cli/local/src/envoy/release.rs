//! Envoy's official releases: one binary for each machine.
//!
//! The server's own list of checksums is not used, because an attacker who changes the binary there
//! can change the list. The binary must have a pinned SHA-256.

use super::download::Client;
use super::{EnvoySourceError, FetchedBinary, Wanted};
use laststream_base::progress::Progress;
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
    let Some(pinned) = wanted.release_sum else { return Err(EnvoySourceError::NoPin { file }) };
    let url = format!("{}/v{}/{file}", places.releases, wanted.version);
    let binary = folder.join("envoy");
    let found = Client::new(places)
        .file(&url, &binary, progress)
        .map_err(|error| EnvoySourceError::Http { url: url.clone(), error })?;
    if found != pinned {
        return Err(EnvoySourceError::Checksum { file: url, found, pinned: pinned.to_owned() });
    }
    Ok(FetchedBinary { binary, sha256: found })
}
