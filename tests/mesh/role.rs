//! The roles of this program, which starts itself again in the namespaces of a level.

use std::env;

/// The variable with the role of a process of this program.
pub(crate) const ROLE: &str = "LASTSTREAM_MESH_ROLE";
/// The variable with the name of its level.
pub(crate) const LEVEL: &str = "LASTSTREAM_MESH_LEVEL";

pub(crate) enum Role {
    /// The process that cargo starts.
    Outside,
    /// The first process in the namespaces.
    Init,
    /// The process in the namespaces that runs the cases of this level.
    Level(String),
    /// The process that waits for the end of a run, then removes its cgroups.
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
