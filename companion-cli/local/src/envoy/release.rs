//! Envoy's official releases: one binary for each machine.
//!
//! The server's own list of checksums is not used, because an attacker who changes the binary there
//! can change the list. The binary must have a pinned SHA-256.

use super::download::Client;
use super::{FetchedBinary, Wanted, error};
use laststream_base::causes::Context as _;
use laststream_base::progress::Progress;
use std::path::Path;

pub(crate) fn fetch(
    wanted: &Wanted,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<FetchedBinary, String> {
    let places = &wanted.places;
    let Some(file) = places.platform.release_file(wanted.version) else {
        return Err(error::no_build(&places.platform));
    };
    let Some(pinned) = wanted.release_sum else { return Err(error::no_pin(&file)) };
    let url = format!("{}/v{}/{file}", places.releases, wanted.version);
    let binary = folder.join("envoy");
    let found =
        Client::new(places).file(&url, &binary, progress).context(format_args!("`{url}`"))?;
    if found != pinned {
        return Err(format!(
            "`{url}` has the SHA-256 `{found}`, not the expected `{pinned}`: it is not used"
        ));
    }
    Ok(FetchedBinary { binary, sha256: found })
}
