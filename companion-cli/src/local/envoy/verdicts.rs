//! Remembers which binaries outside the cache have V8, so that an Envoy on the search path is tried
//! out once and not each time.
//!
//! A verdict holds for one path, as long as size, time and the version line are the same. The
//! binary is asked for its version each time nevertheless, because an `envoy` on the search path
//! may be a script that starts another Envoy tomorrow.

use super::files::Fingerprint;
use super::probe::{self, Identity};
use super::{EnvoySourceError, Places};
use crate::base::digest::Digest;
use crate::base::files::write_durably;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Serialize, Deserialize)]
struct Verdict {
    binary: PathBuf,
    line: String,
    fingerprint: Fingerprint,
    v8: bool,
}

/// Whether a binary has V8, from a stored verdict or from a trial.
pub(crate) fn has_v8(
    places: &Places,
    binary: &Path,
    identity: &Identity,
) -> Result<bool, EnvoySourceError> {
    let fingerprint = Fingerprint::of(binary).map_err(EnvoySourceError::files("read", binary))?;
    let memory = places.cache.as_ref().map(|cache| {
        let name = Digest::of(binary.as_os_str().as_encoded_bytes());
        cache.join("envoy").join("verdicts").join(name.hex()).with_extension("json")
    });
    let known = memory
        .as_ref()
        .and_then(|path| serde_json::from_slice::<Verdict>(&fs::read(path).ok()?).ok());
    if let Some(known) = known
        && (known.fingerprint, known.line.as_str(), known.binary.as_path())
            == (fingerprint, identity.line.as_str(), binary)
    {
        return Ok(known.v8);
    }
    let v8 = probe::has_v8(binary, places.limits.answer)?;
    if let Some(path) = memory {
        // If this fails, the binary is only tried out again.
        let _ = remember(
            &path,
            &Verdict { binary: binary.to_path_buf(), line: identity.line.clone(), fingerprint, v8 },
        );
    }
    Ok(v8)
}

fn remember(path: &Path, verdict: &Verdict) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    write_durably(path, &serde_json::to_vec_pretty(verdict)?)
}
