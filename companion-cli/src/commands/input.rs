//! Files as commands name them.

use std::io::{self, Read as _};
use std::path::Path;

/// A file, or standard input for `-`.
pub(super) fn read(file: &Path) -> io::Result<Vec<u8>> {
    if file == Path::new("-") {
        let mut text = Vec::new();
        io::stdin().lock().read_to_end(&mut text)?;
        Ok(text)
    } else {
        std::fs::read(file)
    }
}
