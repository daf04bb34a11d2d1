//! The gate's secret, from a file or the environment, because arguments are visible to all users of
//! the machine.

use std::io;
use std::path::{Path, PathBuf};

use laststream_base::env_vars::{LASTSTREAM_SECRET, Lookup};
use laststream_base::foreign;
use laststream_http::Secret;

/// The size limit of the file, which is more than any header may hold.
const LONGEST: u64 = 64 << 10;

/// Why the secret cannot be used. No error text repeats the secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("the secret cannot be read from `{}`: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error(
        "the secret in {0} is empty or holds something else than visible ASCII characters, so it \
            cannot be sent as a header"
    )]
    Characters(String),
}

/// The secret from this file, else from the environment.
pub fn secret(file: Option<&Path>, lookup: Lookup<'_>) -> Result<Option<Secret>, SecretError> {
    let (text, place) = match (file, lookup(LASTSTREAM_SECRET)) {
        (Some(path), _) => {
            let text =
                read(path).map_err(|error| SecretError::File { path: path.to_owned(), error })?;
            (text, format!("`{}`", path.display()))
        }
        (None, Some(value)) => (value.to_string_lossy().into_owned(), LASTSTREAM_SECRET.to_owned()),
        (None, None) => return Ok(None),
    };
    let text = text.trim_end_matches(['\r', '\n']); // editors and `echo` end a file with one
    let is_sendable = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_sendable { Ok(Some(Secret::new(text))) } else { Err(SecretError::Characters(place)) }
}

fn read(path: &Path) -> io::Result<String> {
    String::from_utf8(foreign::read_named(path, LONGEST)?)
        .map_err(|_| io::Error::other("it is not text"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_secret_comes_from_the_file_first_and_is_never_shown() {
        let vars = |name: &str| (name == LASTSTREAM_SECRET).then(|| "from-the-environment".into());
        let folder = tempfile::tempdir().expect("folder");
        let file = folder.path().join("secret");
        fs::write(&file, "from-the-file\n").expect("written");
        let revealed = |secret: Option<Secret>| secret.map(|secret| secret.reveal().to_owned());
        assert_eq!(
            revealed(secret(Some(&file), &vars).expect("read")).as_deref(),
            Some("from-the-file")
        );
        assert_eq!(
            revealed(secret(None, &vars).expect("read")).as_deref(),
            Some("from-the-environment")
        );
        assert_eq!(revealed(secret(None, &|_| None).expect("read")), None);
        for text in ["", "\n", "hunter2 is it\n", "hunter2\nhunter3", "hünter2"] {
            fs::write(&file, text).expect("written");
            let error = secret(Some(&file), &vars).expect_err(text).to_string();
            assert!(!error.contains("unter"), "{error}");
        }
        let error =
            secret(Some(&folder.path().join("none")), &vars).expect_err("no file").to_string();
        assert!(error.contains("none"), "{error}");
    }
}
