//! How programs that this one starts end with it: through its own command `guarded`.

use std::ffi::OsString;

/// The arguments to put before a command, so that it ends when this process ends.
pub(crate) fn prefix() -> Vec<OsString> {
    let Ok(program) = std::env::current_exe() else { return Vec::new() };
    let parent = std::process::id().to_string();
    [program.into_os_string(), "guarded".into(), "--parent".into(), parent.into(), "--".into()]
        .into()
}
