//! The command line against a real gate: its output, its waiting, and Jobs beside a proxy.

mod asking;
mod jobs;
mod waiting;

use std::sync::Arc;

use tokio::task::{JoinHandle, spawn_blocking};

use super::bench::Bench;
use crate::lab::Case;
use kit::command::CommandOutput;
use kit::prelude::*;
use kit::user::User;

pub(crate) fn cases() -> Vec<Case> {
    [asking::cases(), jobs::cases(), waiting::cases()].concat()
}

/// An operator who types commands beside this gate.
struct Operator(Arc<User>);

impl Operator {
    fn beside(bench: &Bench) -> Outcome<Self> {
        Self::at(&format!("http://{}", bench.gate))
    }

    fn at(gate: &str) -> Outcome<Self> {
        let mut user = User::new()?;
        user.set("LASTSTREAM_GATE", gate);
        Ok(Self(Arc::new(user)))
    }

    /// Sets a variable of the program's environment.
    fn set(mut self, name: &str, value: &str) -> Outcome<Self> {
        Arc::get_mut(&mut self.0).context("a user who does nothing yet")?.set(name, value);
        Ok(self)
    }

    fn starts(&self, arguments: &[&str]) -> JoinHandle<Outcome<CommandOutput>> {
        let user = Arc::clone(&self.0);
        let arguments: Vec<String> =
            arguments.iter().map(|&argument| argument.to_owned()).collect();
        spawn_blocking(move || {
            user.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), "")
        })
    }

    async fn runs(&self, arguments: &[&str]) -> Outcome<CommandOutput> {
        self.starts(arguments).await?
    }
}
