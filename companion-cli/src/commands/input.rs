//! Files as commands name them.

use std::io;
use std::path::Path;

use laststream::foreign;
use laststream::oci::inspect;
use laststream::policy::{Policy, PolicyError};

use crate::commands::exit::Exit;
use crate::commands::printer::Printer;

/// A policy or a configuration; the largest that Kubernetes keeps has 3 MiB.
pub(super) const LARGEST_TEXT: u64 = 16 << 20;
/// The most that a module may weigh.
pub(super) const LARGEST_MODULE: u64 = inspect::MOST;

/// A file, or standard input for `-`.
pub(super) fn read(file: &Path, most: u64) -> io::Result<Vec<u8>> {
    if file == Path::new("-") {
        foreign::read_to(io::stdin().lock(), most)
    } else {
        foreign::read_named(file, most)
    }
}

/// The text of a policy file; an empty one, which is a policy as well, where no file is named.
pub(super) fn policy_text(file: Option<&Path>, printer: &Printer) -> Result<Vec<u8>, Exit> {
    let Some(file) = file else { return Ok(Vec::new()) };
    read(file, LARGEST_TEXT)
        .map_err(|error| printer.failed(&format!("cannot read `{}`: {error}", file.display())))
}

/// The policy, with its warnings printed; or its problems printed. `default` stands for the file
/// where none is named.
pub(super) fn policy(
    file: Option<&Path>,
    default: &str,
    read: Result<Policy, PolicyError>,
    printer: &Printer,
) -> Result<Policy, Exit> {
    let name = file.map_or(default.into(), |file| file.display().to_string());
    match read {
        Ok(policy) => {
            policy
                .warnings
                .iter()
                .for_each(|warning| printer.warning(&format!("{name}: {warning}")));
            Ok(policy)
        }
        Err(refused) => {
            refused.0.iter().for_each(|problem| printer.error(&format!("{name}: {problem}")));
            Err(Exit::Failed)
        }
    }
}
