//! `laststream render envoy --into FILE`

use std::path::Path;

use laststream_base::causes::Context as _;
use laststream_base::files::write_atomically;
use laststream_base::foreign;
use laststream_policy::Policy;
use laststream_render::into::{IntoError, Merged, merge};

use crate::commands::{Ended, Exit, Printer};
use crate::input::LARGEST_TEXT;

/// Shows what the merge changes in the file, and writes it if that is wanted.
pub(super) fn run(policy: &Policy, file: &Path, writes: bool, printer: &Printer) -> Ended {
    let name = file.display().to_string();
    let failed = format!("`{name}`");
    let text = foreign::read_named(file, LARGEST_TEXT).context(&failed)?;
    let text = String::from_utf8(text).map_err(|_| "the text is not UTF-8").context(&failed)?;
    let Merged { text, diff } = merge(policy, &name, &text).map_err(|error| match error {
        IntoError::Policy(problem) => problem.to_string(),
        IntoError::File(error) => format!("{failed}: {error}"),
    })?;
    if diff.is_empty() {
        printer.status_line(&format!("`{name}` has all of it: nothing changes"));
        return Ok(Exit::Fine);
    }
    printer.stdout_verbatim(&diff);
    if writes {
        write_atomically(file, text.as_bytes()).context(failed)?;
        printer.status_line(&format!("wrote {name}"));
    } else {
        printer.status_line("nothing is written yet: `--write` writes it");
    }
    printer.status_line("start Envoy with `--drain-strategy immediate`, so that clients leave");
    Ok(Exit::Fine)
}
