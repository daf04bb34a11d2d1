//! `laststream run`

mod drain;
mod serve;
mod signals;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use laststream_base::causes::Context as _;
use laststream_base::env_vars;
use laststream_local::Server;
use laststream_local::envoy::{self, NEWEST, Version, Wanted};
use laststream_local::run::module::ModuleSource;
use laststream_local::run::upstream::{self, Upstream};
use laststream_local::run::watch::ChangeDetector;
use laststream_local::run::{self, Runner, Setup, StopRequests, Watches, echo};
use laststream_policy::placement::AppProtocol;
use laststream_render::local::App;

use crate::commands::{Ended, Exit, Failure, Output, Printer, misused};
use crate::guard;
use crate::input::{policy, policy_text};

/// Runs a real Envoy with the module in front of an app. After Ctrl-C it drains, and prints what it
/// waits for.
///
/// All listeners are on the loopback interface. Ports are free ones by default, so that several
/// runs can go on at the same time. If LASTSTREAM_SECRET is set, requests that change the gate must
/// carry it; `laststream drain` and the other commands send it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    /// The app: `HOST:PORT`, or a port on this machine. The default is a built-in app that shows
    /// each request as JSON. Its `/delay/SECONDS` answers after that time, its `/status/CODE` with
    /// that status.
    #[arg(short, long, value_name = "HOST:PORT")]
    upstream: Option<String>,
    /// Sends requests to the app by HTTP/2 without TLS, which servers of gRPC need.
    #[arg(long, requires = "upstream")]
    upstream_http2: bool,
    /// The policy file of `render`, for any placement; `-` for standard input. Its `module` is
    /// ignored, see `--module`; `websockets.module` is the frame filter in this program.
    #[arg(short, long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The module: `builtin`, a file, or a checkout of the sources to compile.
    #[arg(short, long, default_value = "builtin")]
    module: String,
    /// Hot-reloads the policy and the module when their files change, without dropping requests. A
    /// checkout is compiled again.
    #[arg(short, long)]
    watch: bool,
    /// Where Envoy listens for requests: an address, or a port on the loopback interface. 0 chooses
    /// a free port.
    #[arg(short, long, value_name = "ADDRESS", default_value = "0", value_parser = address)]
    listen: SocketAddr,
    /// The port of the gate; 0 chooses a free port.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    gate: u16,
    /// The port of Envoy's admin interface; 0 chooses a free port.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    admin: u16,
    /// The version of Envoy to run.
    #[arg(long, value_name = "VERSION", default_value_t = NEWEST)]
    envoy_version: Version,
    /// The number of Envoy's worker threads. The default is the number of processors.
    #[arg(long, value_name = "THREADS", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Option<u32>,
    /// The folder in which Envoy's log and configuration are kept. The default is a new temporary
    /// folder, which is removed if no stream was cut.
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
    /// The format of the addresses that are printed when Envoy is ready. `json` prints one object:
    /// `listener`, `gate`, `admin`, `upstream`, `log` and `pid`.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
    /// Additional arguments for Envoy.
    #[arg(last = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  laststream run
  laststream run --upstream 8080 --listen 10000
  laststream run --upstream 50051 --upstream-http2
  laststream run --policy policy.yaml --module . --watch
  laststream run --envoy-version 1.36.4 --concurrency 2 -- --log-level debug

Exit codes: 0 no stream was cut, 1 streams were or may have been cut (the deadline, or a second \
Ctrl-C), 2 Envoy did not start or ended by itself, 64 wrong arguments.";

pub(crate) fn run(command: &Run, printer: &Printer) -> Ended {
    let parts = Parts::get(command, printer)?;
    // From here on Ctrl-C requests a drain.
    let stop = parts.setup.stop.clone();
    signals::stop_at_signals(stop.clone()).context("signals cannot be handled")?;
    printer.status_line("starting Envoy");
    let mut runner = match Runner::start(&parts.setup) {
        Ok(runner) => runner,
        Err(error @ run::RunnerError::Stopped) => {
            printer.status_line(&error.to_string());
            return Ok(Exit::Fine);
        }
        Err(error) => return Err(error.into()),
    };
    let announcement = serve::announcement(&runner, command.upstream.is_none());
    printer.result(command.output, runner.places(), &announcement);
    printer.status_line("for `laststream status` and other commands in another terminal:");
    printer.status_line(&format!("export LASTSTREAM_GATE={}", runner.places().gate));
    printer.status_line("Ctrl-C drains and ends it");
    let policy = command.policy.as_deref();
    serve::serve(&mut runner, policy, parts.watches, &stop, printer)?;
    drain::drain(&mut runner, printer)
}

/// Everything that must be there before Envoy is started.
struct Parts {
    setup: Setup,
    watches: Watches,
    _echo: Option<Server>,
}

impl Parts {
    fn get(command: &Run, printer: &Printer) -> Result<Self, Failure> {
        let source = ModuleSource::read(&command.module).map_err(misused)?;
        is_something_to_watch(command, &source).map_err(misused)?;
        let file = command.policy.as_deref();
        let text = policy_text(file)?;
        let secret = run::policy::secret(&env_vars::of_process)?;
        let reader = if file.is_some() { run::policy::read_file } else { run::policy::read };
        let policy = reader(&text, secret.is_some());
        let policy = self::policy(file, "the default policy", policy, printer)?;
        let (at, echo) = app(command, printer)?;
        let protocol = if command.upstream_http2 { AppProtocol::Http2 } else { AppProtocol::Http1 };
        let eye = ChangeDetector::of_module(&source); // changes while it compiles are compiled next
        let module = source.bytes(printer)?;
        let envoy = envoy::find_or_get(&Wanted::version(command.envoy_version), printer)?;
        let mut watches = Watches::default();
        if command.watch {
            let policy = file.map(|file| (file, text));
            let module = eye.map(|eye| (eye, source, module.clone()));
            watches = Watches::new(policy, secret.is_some(), module, Printer::default());
        }
        let setup = Setup {
            envoy: envoy.binary,
            policy,
            secret,
            module,
            app: App { at, protocol },
            listen: command.listen,
            gate: command.gate,
            admin: command.admin,
            concurrency: command.concurrency,
            arguments: command.arguments.clone(),
            folder: command.logs.clone(),
            guard: guard::prefix(),
            stop: StopRequests::default(),
        };
        Ok(Self { setup, watches, _echo: echo })
    }
}

fn is_something_to_watch(command: &Run, source: &ModuleSource) -> Result<(), String> {
    match command.policy.as_deref() {
        _ if !command.watch => Ok(()),
        Some(file) if file == Path::new("-") => {
            Err("`--watch` cannot watch standard input: name a file with `--policy`".into())
        }
        None if matches!(source, ModuleSource::Builtin) => {
            Err("`--watch` has nothing to watch: name a file with `--policy`, or a file or a \
                 checkout with `--module`"
                .into())
        }
        _ => Ok(()),
    }
}

/// The address of the app. The built-in app is returned, too, because it ends when it is dropped.
fn app(command: &Run, printer: &Printer) -> Result<(SocketAddr, Option<Server>), Failure> {
    let Some(address) = &command.upstream else {
        let echo = echo::start().context("the built-in app cannot be started")?;
        return Ok((echo.address(), Some(echo)));
    };
    let Upstream { at, is_there } = upstream::find(address).map_err(misused)?;
    if !is_there {
        printer.warning(&format!(
            "no program listens on {at} yet; requests are answered with 503 until the app is there"
        ));
    }
    Ok((at, None))
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse::<u16>().map(|port| (Ipv4Addr::LOCALHOST, port).into());
    port.or_else(|_| text.parse()).map_err(|_| {
        format!("`{text}` is neither a port nor an address with a port, such as `127.0.0.1:10000`")
    })
}
