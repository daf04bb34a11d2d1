//! Files as commands name them.

use std::io;
use std::path::Path;

use laststream::foreign;
use laststream::oci::inspect;

/// A policy or a configuration; the largest that Kubernetes keeps has 3 MiB.
pub(super) const LARGEST_TEXT: u64 = 16 << 20;
/// The most that a module may weigh.
pub(super) const LARGEST_MODULE: u64 = inspect::MOST;

/// A file, or standard input for `-`.
pub(super) fn read(file: &Path, most: u64) -> io::Result<Vec<u8>> {
    if file == Path::new("-") { foreign::read_to(io::stdin().lock(), most) } else { foreign::read_named(file, most) }
}
