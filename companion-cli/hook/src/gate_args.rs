//! The options of the commands that ask a gate.

use std::path::PathBuf;

use clap::Args;
use laststream_base::env_vars;
use laststream_gate::{self as gate, Address, GateClient, GateError};

use crate::{Failure, misused};

pub const EXIT_CODES: &str =
    "Exit codes: 0 success, 2 the gate cannot be asked, or refuses, 64 wrong arguments.";

#[derive(Debug, Args)]
pub struct GateArgs {
    /// The address of the gate [default: LASTSTREAM_GATE, else http://127.0.0.1:16091]
    #[arg(long, value_name = "URL")]
    gate: Option<Address>,
    /// A file with the gate's secret, for gates that have one. The default is the variable
    /// LASTSTREAM_SECRET, if it is set.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

impl GateArgs {
    /// Rejects the options of one gate, because a command for many pods contradicts them.
    pub fn refuse(&self) -> Result<(), Failure> {
        if self.gate.is_none() && self.secret_file.is_none() {
            return Ok(());
        }
        Err(misused(
            "`--gate` and `--secret-file` are for one gate; pods are asked through the Kubernetes \
                API",
        ))
    }

    pub fn gate(&self) -> Result<GateClient, Failure> {
        let address = match &self.gate {
            Some(address) => address.clone(),
            None => gate::from_vars(&env_vars::of_process)
                .map_err(|error| misused(format!("LASTSTREAM_GATE: {error}")))?,
        };
        let secret = gate::secret(self.secret_file.as_deref(), &env_vars::of_process)?;
        Ok(GateClient::new(address, secret))
    }

    pub fn ask<T>(
        &self,
        ask: impl FnOnce(&GateClient) -> Result<T, GateError>,
    ) -> Result<T, Failure> {
        let gate = self.gate()?;
        Ok(ask(&gate).map_err(|error| failed(&gate, &error))?)
    }
}

pub fn error_text(gate: &GateClient, error: &GateError) -> String {
    let outcome = if is_refusal(error) { "answers, but" } else { "cannot be asked:" };
    format!("the gate at {} {outcome} {error}", gate.address())
}

/// Whether the gate has answered, with a refusal.
pub fn is_refusal(error: &GateError) -> bool {
    matches!(error, GateError::Forbidden(_) | GateError::Rejected(_))
}

/// The error that ends a command.
pub fn failed(gate: &GateClient, error: &GateError) -> String {
    error_text(gate, error) + way_out(error)
}

/// The ways to another gate, if none is at the address.
pub fn way_out(error: &GateError) -> &'static str {
    if error.is_absence() {
        "; for pods, name them or their namespace (`laststream status -n NAMESPACE`), or run \
         `kubectl port-forward POD 16091`; for an Envoy on this machine, name its gate with \
         `--gate` or LASTSTREAM_GATE"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_not_reported_as_an_unreachable_gate() {
        let gate = GateClient::new("http://127.0.0.1:1".parse().expect("an address"), None);
        for (error, text) in [
            (
                GateError::Rejected("another drain is running".into()),
                "the gate at http://127.0.0.1:1 answers, but it refuses: another drain is running",
            ),
            (
                GateError::ConnectionRefused,
                "the gate at http://127.0.0.1:1 cannot be asked: no program listens there",
            ),
        ] {
            assert_eq!(error_text(&gate, &error), text);
        }
    }
}
