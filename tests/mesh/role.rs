//! The roles of this program, which starts itself again in the namespaces of a level.

use std::env;

/// Tells a process of this program its role.
pub(crate) const ROLE: &str = "LASTSTREAM_MESH_ROLE";
/// Tells it the name of its level.
pub(crate) const LEVEL: &str = "LASTSTREAM_MESH_LEVEL";

pub(crate) enum Role {
    /// As cargo starts it.
    Outside,
    /// The first process in the namespaces.
    Init,
    /// The one there that runs the cases of this level.
    Level(String),
    /// Waits for the end of a run, to tidy up.
    Sweeper,
}

pub(crate) fn role() -> Role {
    match env::var(ROLE).as_deref() {
        Ok("init") => Role::Init,
        Ok("level") => Role::Level(env::var(LEVEL).unwrap_or_default()),
        Ok("sweeper") => Role::Sweeper,
        _ => Role::Outside,
    }
}
