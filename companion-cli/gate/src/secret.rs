//! The gate's secret, from a file or the environment, because arguments are visible to all users of
//! the machine.

use std::io;
use std::path::Path;

use laststream_base::causes::Context as _;
use laststream_base::env_vars::{LASTSTREAM_SECRET, Lookup};
use laststream_base::foreign;
use laststream_base::secret::Secret;

/// The size limit of the file, which is more than any header may hold.
const LONGEST: u64 = 64 << 10;

/// The secret from this file, else from the environment. No error repeats it.
pub fn secret(file: Option<&Path>, lookup: Lookup<'_>) -> Result<Option<Secret>, String> {
    let (text, place) = match (file, lookup(LASTSTREAM_SECRET)) {
        (Some(path), _) => {
            let place = format!("`{}`", path.display());
            let message = format_args!("the secret cannot be read from {place}");
            (read(path).context(message)?, place)
        }
        (None, Some(value)) => (value.to_string_lossy().into_owned(), LASTSTREAM_SECRET.to_owned()),
        (None, None) => return Ok(None),
    };
    let text = text.trim_end_matches(['\r', '\n']); // editors and `echo` end a file with one
    let is_sendable = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_sendable.then(|| Some(Secret::new(text))).ok_or_else(|| {
        format!(
            "the secret in {place} is empty or holds something else than visible ASCII characters, \
                so it cannot be sent as a header"
        )
    })
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
            let error = secret(Some(&file), &vars).expect_err(text);
            assert!(!error.contains("unter"), "{error}");
        }
        let error = secret(Some(&folder.path().join("none")), &vars).expect_err("no file");
        assert!(error.contains("none"), "{error}");
    }
}
