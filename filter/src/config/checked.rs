//! The checked configuration.

use super::wire::{Role, Scope};
use crate::forwarded::SchemePolicy;
use crate::gate::policy::GatePolicy;
use crate::stream::rules::Rule;

/// A checked configuration.
#[derive(Debug)]
pub struct Config {
    pub(crate) role: Role,
    pub(crate) scope: Scope,
    pub(crate) exclude: Vec<Rule>,
    pub(crate) long_lived: Vec<Rule>,
    /// Whether the kind of each stream is kept.
    /// Whether the beginnings of streams are kept.
    pub(crate) ages: bool,
    pub(crate) kinds: bool,
    pub(crate) forwarded_proto: Option<SchemePolicy>,
    pub(crate) gate: Option<GatePolicy>,
}

const NAME: &str = concat!("laststream ", env!("CARGO_PKG_VERSION"));

impl Config {
    /// The scope of its metrics.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The policy for `x-forwarded-proto`, if it is restored.
    pub fn forwarded_proto(&self) -> Option<&SchemePolicy> {
        self.forwarded_proto.as_ref()
    }

    /// Settings that are valid but probably wrong.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self
            .forwarded_proto
            .as_ref()
            .is_some_and(|policy| policy.trust.peers.contains_every_address())
        {
            warnings.push(
                "forwarded_proto.trust.peers: every address is trusted, so every client can claim \
                 https"
                    .into(),
            );
        }
        if self.gate.as_ref().is_some_and(|gate| {
            gate.wire.begin.inbound_only && gate.drain.scopes.contains(&Scope::Gateway)
        }) {
            warnings.push("gate.begin.inbound_only: drains nothing on a gateway".into());
        }
        warnings
    }

    /// One line for the log.
    pub fn summary(&self) -> String {
        if let Some(gate) = &self.gate {
            let mut summary = format!("{NAME}: gate");
            for (index, scope) in gate.drain.scopes.iter().enumerate() {
                summary = format!("{summary}{}{scope}", if index == 0 { " for " } else { " and " });
            }
            return summary;
        }
        if self.role == Role::Websocket {
            return format!("{NAME}: follows the frames of WebSockets");
        }
        let proto = match &self.forwarded_proto {
            Some(policy) => format!("{} sources for x-forwarded-proto", policy.sources.len()),
            None => "x-forwarded-proto untouched".into(),
        };
        let (scope, excluded, long) = (self.scope, self.exclude.len(), self.long_lived.len());
        format!(
            "{NAME}: counts streams as {scope}, {excluded} exclusions, {long} rules for long-lived \
             ones, {proto}"
        )
    }
}
