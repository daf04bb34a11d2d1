//! Reads the files that commands name.

use std::io;
use std::path::Path;

use laststream_base::causes::Context as _;
use laststream_base::foreign;
use laststream_module::inspect;
use laststream_policy::{Policy, PolicyError};

use crate::commands::{Exit, Failure, Printer, printed};

/// The limit for a policy or a configuration; the largest that Kubernetes keeps has 3 MiB.
pub(crate) const LARGEST_TEXT: u64 = 16 << 20;
/// The limit for a module.
pub(crate) const LARGEST_MODULE: u64 = inspect::MOST;

/// Reads a file, or standard input for `-`.
pub(crate) fn read(file: &Path, most: u64) -> Result<Vec<u8>, String> {
    let result = if file == Path::new("-") {
        foreign::read_to(io::stdin().lock(), most)
    } else {
        foreign::read_named(file, most)
    };
    result.context(format_args!("cannot read `{}`", file.display()))
}

/// The text of a policy file. Without a file it is empty, which is a valid policy.
pub(crate) fn policy_text(file: Option<&Path>) -> Result<Vec<u8>, String> {
    file.map_or(Ok(Vec::new()), |file| read(file, LARGEST_TEXT))
}

/// Prints the warnings of the policy and returns it, or prints its problems. Without a file, these
/// lines begin with `default`.
pub(crate) fn policy(
    file: Option<&Path>,
    default: &str,
    read: Result<Policy, PolicyError>,
    printer: &Printer,
) -> Result<Policy, Failure> {
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
            Err(printed(Exit::Failed))
        }
    }
}
