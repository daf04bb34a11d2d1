//! `laststream demo`

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use clap::Args;
use laststream_base::children;
use laststream_base::files::check_place;
use laststream_local::demo::times::Times;
use laststream_local::demo::view::{View, WIDTH, plain_line, table};
use laststream_local::demo::{self, News, Outcome, Settings, report};
use laststream_local::envoy::{self, NEWEST, Version, Wanted};
use laststream_module::builtin;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::commands::{Ended, Exit, Output, Printer};
use crate::guard;
use crate::screen::{can_redraw, terminal};

/// Shows on this machine which streams are lost when a gateway's pod is deleted.
///
/// A request of 10 s and a WebSocket of 13 s go through a gateway, beside an idle connection. After
/// 1 s the gateway's pod is deleted. The experiment runs once for each way of stopping it, all at
/// the same time: with laststream, as Istio's chart installs it, with a longer
/// terminationDrainDuration, with EXIT_ON_ZERO_ACTIVE_CONNECTIONS, with a hook that sleeps, with
/// the netstat hook, and with retries at the caller. What follows for sidecars is computed. The
/// demo also shows what the app sees as x-forwarded-proto.
///
/// The gateways and their caller are real Envoys, found or downloaded as by `laststream envoy get`.
/// They run the module that this program carries. The rest are models of measured behaviour: the
/// app answers as httpbin does, kubelet stops a container by Kubernetes' rules, and Istio's agent
/// reacts to SIGTERM as pilot-agent does. The grace period is 20 s instead of Kubernetes' 30 s, so
/// that the demo takes less than half a minute.
///
/// The demo shows measured results. If a result differs from what is expected, the demo prints the
/// difference and the exit code is 1.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  laststream demo\n  laststream demo --quick --report \
        demo.html\n  laststream demo --quick -o json > demo.json")]
pub(crate) struct Demo {
    /// Shortens the request to 2.5 s, and all other times by the same factor.
    #[arg(long)]
    quick: bool,
    /// Also writes the result as an HTML page, which needs no other files.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The version of Envoy to run.
    #[arg(long, value_name = "VERSION", default_value_t = NEWEST)]
    envoy_version: Version,
    /// The format of the result. `json` prints one object: `envoy`, `times`, `lanes`, each with its
    /// `request` and `websocket` (`result`, `at` in seconds, `lost`), `ended_by`, `why` and
    /// `events`, `forwarded_proto` and `surprises`.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn run(demo: &Demo, printer: &Printer) -> Ended {
    deliver(demo, &outcome(demo, printer)?, printer)
}

fn outcome(demo: &Demo, printer: &Printer) -> Result<Outcome, String> {
    // Checked first, so that a wrong path is not found after half a minute.
    if let Some(file) = &demo.report {
        check_place(file).map_err(|error| report_error(file, &error))?;
    }
    let module =
        builtin().map_err(|reason| format!("this program has no module inside: {reason}"))?;
    let envoy = envoy::find_or_get(&Wanted::version(demo.envoy_version), printer)?;
    let times = if demo.quick { Times::quick() } else { Times::usual() };
    let stop = stop_at_signals().map_err(|error| format!("cannot listen for signals: {error}"))?;
    let settings = Settings { envoy, module, guard: guard::prefix(), times, stop };
    let (sender, receiver) = channel();
    let view = View::new(times);
    thread::scope(|scope| {
        scope.spawn(|| show(view, receiver, printer));
        let result = demo::run(&settings, printer, &sender);
        drop(sender); // ends the view
        result
    })
}

fn deliver(demo: &Demo, outcome: &Outcome, printer: &Printer) -> Ended {
    // Written first, because a closed pipe of the table ends this process.
    let report = demo.report.as_ref().map(|file| (file, report::write(file, outcome)));
    match demo.output {
        Output::Json => printer.value(outcome),
        Output::Text => printer.coloured(&table(outcome)),
    }
    if let Some((file, report)) = report {
        report.map_err(|error| report_error(file, &error))?;
        printer.status_line(&format!("the report is in `{}`", file.display()));
    }
    if outcome.surprises.is_empty() {
        return Ok(Exit::Fine);
    }
    for surprise in &outcome.surprises {
        printer.warning(&format!("not as expected: {surprise}"));
    }
    Ok(Exit::Negative)
}

fn report_error(file: &Path, error: &std::io::Error) -> String {
    format!("cannot write the report `{}`: {error}", file.display())
}

/// The first signal requests an orderly end, the second one ends this process at once. A SIGHUP
/// that is ignored, as under `nohup`, stays ignored.
fn stop_at_signals() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM].into_iter().chain(children::not_ignored(&[SIGHUP])) {
        // In this order: the first signal finds the flag down, and raises it.
        signal_hook::flag::register_conditional_shutdown(
            signal,
            i32::from(Exit::Failed.code()),
            Arc::clone(&stop),
        )?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    children::leave_signals();
    Ok(stop)
}

/// Redraws lines in a terminal. Without one, or without colours, prints a line for each event.
fn show(mut view: View, receiver: Receiver<News>, printer: &Printer) {
    let stderr = std::io::stderr();
    let is_live = can_redraw(&stderr) && terminal(&stderr).0 > WIDTH;
    let mut is_over = false;
    while !is_over {
        match receiver.recv_timeout(Duration::from_millis(100)) {
            Ok(News::Began) => view.begin(),
            Ok(News::Happened(lane, event)) => {
                if !is_live {
                    printer.status_line(&plain_line(lane, &event));
                }
                view.happened(lane, event);
                continue; // the next message may be there already
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => is_over = true,
        }
        if is_live {
            view.frame().iter().for_each(|line| printer.stderr_verbatim(line));
        }
    }
}
