//! A signal that an operator sends through the gate.

/// A signal to Envoy's admin interface, with its path and query.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Signal {
    /// Envoy ends.
    Quit(String),
    /// Envoy closes its listeners.
    DrainListeners(String),
}

/// The path of the signal that ends Envoy.
pub const QUIT: &str = "/quitquitquit";

impl Signal {
    /// The path with its query.
    pub fn path(&self) -> &str {
        match self {
            Self::Quit(path) | Self::DrainListeners(path) => path,
        }
    }

    /// Whether the process ends, with the streams of all scopes.
    pub fn ends_envoy(&self) -> bool {
        matches!(self, Self::Quit(_))
    }
}
