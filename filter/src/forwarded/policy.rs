//! The checked policy of the scheme.

use super::source::{Ports, Source};
use super::trust::Trust;
use crate::config::wire::{Decision, Fallback, Strip};

/// How `x-forwarded-proto` is restored, checked.
#[derive(Debug)]
pub struct SchemePolicy {
    /// Which peers are trusted.
    pub trust: Trust,
    /// Whether the scheme comes from the destination port of the PROXY protocol header. Then there
    /// are no sources.
    pub reads_destination: bool,
    /// The headers to read, each once; `x-forwarded-proto` under the name of the saved header.
    pub sources: Vec<Source>,
    /// The saved header: it holds the `x-forwarded-proto` that the peer sent.
    pub original: String,
    /// How several sources are combined.
    pub decision: Decision,
    /// The schemes of ports.
    pub ports: Ports,
    /// The value for requests of untrusted peers.
    pub fallback: Fallback,
    /// The value for requests of trusted peers that name no scheme.
    pub silent: Fallback,
    /// Which forgeable headers are removed.
    pub strip: Strip,
    /// Whether `:scheme` is also written.
    pub write_scheme: bool,
    /// Whether `x-forwarded-port` is also written.
    pub write_port: bool,
}

impl SchemePolicy {
    /// Whether a source is the saved header.
    pub fn looks_at_original(&self) -> bool {
        self.sources.iter().any(|source| source.header == self.original)
    }
}
