//! `gate`: the gate beside an Envoy without the module. The gate is the module's own code, and this
//! program takes Envoy's place around it. Envoy's own count is the only one.
//!
//! | file | holds |
//! |---|---|
//! | `configuration` | the module's configuration, with this program's differences |
//! | `native` | the host calls of the gate |
//! | `watchdog` | the time-outs by which it knows whether a worker stands still |
//! | `program`, `input` | the loop, and what it handles |
//! | `server`, `admin` | the gate's port, calls to Envoy |
//! | `ending` | signals, and Envoy as a child process |

mod admin;
mod configuration;
mod ending;
mod input;
mod native;
mod program;
mod server;
mod watchdog;

use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use clap::Args;
use laststream_base::causes::Context as _;
use laststream_base::env_vars;

use crate::exec::{Child, Signals};
use crate::{Ended, Exit, Failure, Printer};
use admin::Target;
use configuration::Configuration;
use ending::Ending;
use input::{Input, STACK};
use native::Native;
use program::Program;

/// Runs a gate beside an Envoy, which needs no module. It counts by Envoy's own count, which it
/// reads from Envoy's admin interface.
///
/// SIGTERM and SIGINT begin a drain. When the drain is over, the program ends. With a command it
/// starts Envoy, and ends it when the drain is over; the exit code is then Envoy's. A second signal
/// ends Envoy at once.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct GateCommand {
    /// Envoy's admin interface: HOST:PORT, or `unix:` and the path of a socket.
    #[arg(long, value_name = "ADDRESS")]
    envoy: Target,
    /// The address at which the gate listens.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:16091")]
    listen: SocketAddr,
    /// The gate's configuration, as the module reads it: a file with JSON whose `role` is `gate`.
    /// `count` is always `envoy`; the clusters of `app` and `notify` are addresses here.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The same as text, in place of a file.
    #[arg(long, value_name = "JSON", conflicts_with = "config")]
    config_json: Option<String>,
    /// A file with the gate's secret. The default is the variable LASTSTREAM_SECRET, if it is set.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Envoy's command, to be run as a child process.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const HELP: &str = "\
Examples:
  laststream gate --envoy 127.0.0.1:9901
  laststream gate --envoy unix:/run/envoy/admin.sock --config gate.json
  laststream gate --envoy 127.0.0.1:9901 -- envoy -c envoy.yaml

Exit codes: 0 the drain reached zero, 1 the deadline or `--force` ended it, 2 the gate cannot run, \
64 wrong arguments; with a command, Envoy's own, or 128 plus the number of the signal that ended \
it, 127 if the command does not exist, 126 if it cannot be run.";

/// Runs `gate`.
///
/// # Errors
/// The configuration is wrong or does not fit this Envoy, or the port is not free.
pub fn run(command: &GateCommand, printer: &Printer) -> Ended {
    let secret = laststream_gate::secret(command.secret_file.as_deref(), &env_vars::of_process)?;
    let is_parent = !command.command.is_empty();
    let (file, text) = (command.config.as_deref(), command.config_json.as_deref());
    let configuration = Configuration::read(file, text, &command.envoy, secret, is_parent)?;
    let listener = TcpListener::bind(command.listen).context(format_args!(
        "the gate cannot listen at {}: end the gate that runs there, or give `--listen`",
        command.listen
    ))?;
    let (sender, inputs) = channel();
    watch_signals(sender.clone())?;
    let child = match is_parent.then(|| Child::start_apart(&command.command)).transpose() {
        Ok(child) => child,
        Err(failed) => {
            let exit = Exit::Child(failed.code());
            return Err(Failure { exit, text: Some(failed.to_string()) });
        }
    };
    let secret = configuration.secret_in_state();
    let native = Native::new(printer, command.envoy.clone(), secret, sender.clone());
    let ending = Ending::new(child, &configuration);
    let mut program = Program::new(native, &configuration, ending);
    let places = Arc::new(());
    let listen = || server::listen(listener, sender, &places).context("a thread cannot start");
    let exit = program.run(&inputs, listen);
    server::wait_for_responses(&places);
    Ok(exit?)
}

fn watch_signals(inputs: Sender<Input>) -> Result<(), String> {
    let message = "signals cannot be watched, so the gate does not run";
    let signals = Signals::watch().context(message)?;
    let forward = move || {
        while let Some(event) = signals.next() {
            let input = event.signal().map_or(Input::Child, Input::Signal);
            if inputs.send(input).is_err() {
                break;
            }
        }
    };
    thread::Builder::new().stack_size(STACK).spawn(forward).context(message).map(drop)
}
