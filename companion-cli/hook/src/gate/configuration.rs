//! The configuration of the gate: the module's own, with this program's differences.

use std::path::Path;

use laststream_base::causes::Context as _;
use laststream_base::foreign;
use laststream_base::secret::Secret;
use laststream_filter::config;
use laststream_filter::config::wire::{Finish, Gate, GateCount, ISTIOS_AGENT, Role};
use laststream_filter::gate::access::SECRET_KEY;

use super::admin::Target;

/// The size limit of the file.
const LONGEST: u64 = 1 << 20;

/// A checked configuration.
#[derive(Debug)]
pub(super) struct Configuration {
    /// What the gate reads.
    pub(super) text: String,
    pub(super) quiet_ms: u64,
    pub(super) deadline_ms: u64,
    /// Whether the gate itself ends Envoy, or has it ended, behind the latch.
    pub(super) has_last_call: bool,
    pub(super) secret: Option<Secret>,
    /// The filter state that the gate takes the secret from.
    pub(super) secret_key: Option<String>,
}

impl Configuration {
    /// The secret under the name that the gate looks for.
    pub(super) fn secret_in_state(&self) -> Option<(String, String)> {
        let secret = self.secret.as_ref()?.reveal().to_owned();
        Some((self.secret_key.clone()?, secret))
    }

    /// Reads a file, or a text, or neither: then every field has its default. A gate that is
    /// Envoy's parent ends it, so that is its last call.
    pub(super) fn read(
        file: Option<&Path>,
        text: Option<&str>,
        envoy: &Target,
        secret: Option<Secret>,
        is_parent: bool,
    ) -> Result<Self, String> {
        let (place, bytes) = match file {
            Some(file) => {
                let place = format!("`{}`", file.display());
                let text = foreign::read_named(file, LONGEST);
                let text = text.context(format_args!("{place} cannot be read"))?;
                (place, text)
            }
            None => ("`--config-json`".to_owned(), text.unwrap_or(r#"{"role": "gate"}"#).into()),
        };
        let mut wire = config::read_wire(&bytes).context(format_args!("{place}"))?;
        if wire.role != Role::Gate {
            return Err(format!("{place}: role: must be `gate`"));
        }
        let mut gate = wire.gate.take().unwrap_or_default();
        gate.count = GateCount::Envoy;
        // Every cluster is an address here.
        gate.admin.cluster = envoy.to_string();
        if gate.admin.agent_cluster == ISTIOS_AGENT {
            gate.admin.agent_cluster = "127.0.0.1:15020".to_owned();
        }
        if is_parent && gate.finish == Finish::Nothing {
            gate.finish = Finish::Quit;
        }
        let of_app = gate.app.iter().map(|app| ("app.cluster", &app.cluster));
        let of_notify = gate.notify.iter().map(|notify| ("notify.cluster", &notify.cluster));
        let of_agent = [("admin.agent_cluster", &gate.admin.agent_cluster)];
        for (field, address) in of_app.chain(of_notify).chain(of_agent) {
            address
                .parse::<Target>()
                .context(format_args!("{place}: gate.{field}: `{address}`"))?;
        }
        let secret = gate.secret.clone().map(Secret::new).or(secret);
        if secret.is_some() && gate.secret.is_none() && gate.secret_key.is_none() {
            gate.secret_key = Some(SECRET_KEY.to_owned());
        }
        wire.gate = Some(gate);
        let text = serde_json::to_string(&wire).context("the configuration cannot be written")?;
        config::parse(text.as_bytes()).context(format_args!("{place}"))?;
        let Gate { quiet_ms, deadline_ms, secret_key, finish, .. } = wire.gate.unwrap_or_default();
        let has_last_call = finish != Finish::Nothing;
        Ok(Self { text, quiet_ms, deadline_ms, has_last_call, secret, secret_key })
    }
}
