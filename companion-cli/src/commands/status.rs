//! `laststream status`

use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use laststream_gate::{GateClient, is_open, text};
use laststream_hook::gate_args::{EXIT_CODES, GateArgs, error_text, failed};

use crate::commands::pods::status::{self as many, StatusArgs};
use crate::commands::{Ended, Exit, FleetOutput, Printer, misused};
use crate::screen::{Screen, can_redraw};

/// Shows the state of an Envoy's gate: the drain, the streams in flight, and the reason for
/// waiting. With names of pods: of these. With a namespace, a selector or a node: of every pod with
/// a proxy, those with trouble first. With a node also what would hold each pod if it were deleted
/// now, and for how long.
#[derive(Debug, Args)]
#[command(after_help = format!(
    "Examples:\n  \
     laststream status\n  \
     laststream status --gate http://127.0.0.1:16091 -o json\n  \
     laststream status --watch\n  \
     laststream status web-1 -n shop\n  \
     laststream status -n shop -l app=web -o wide\n  \
     laststream status -A --trouble\n  \
     laststream status --node worker-3\n\n\
     {EXIT_CODES} With --watch, 0 means that the gate is open, and 2 that it has not answered for \
     10 s. For many pods, 0 means that all proxies answered, 1 that at least one proxy or gate did \
     not (see the table), and 2 that the API server cannot be reached, a right is missing, or the \
     namespace or the selector has no pod; --watch runs until it is interrupted."
))]
pub(crate) struct Status {
    #[command(flatten)]
    gate: GateArgs,
    #[command(flatten)]
    pub(crate) shown: StatusArgs,
}

/// A gate that has been silent for this long will not come back.
const SILENCE: Duration = Duration::from_secs(10);
/// The shortest interval, because each request costs Envoy work.
const SHORTEST: Duration = Duration::from_millis(100);

pub(crate) fn run(command: &Status, printer: &Printer) -> Ended {
    if command.shown.fleet.are_given() {
        command.gate.refuse()?;
        return many::run(&command.shown, printer);
    }
    let shown = &command.shown;
    if shown.output == FleetOutput::Wide || shown.every_gate || shown.trouble {
        return Err(misused(
            "`-o wide`, `--every-gate` and `--trouble` are for many pods: name a namespace with \
              `-n`, or all with `-A`",
        ));
    }
    let gate = command.gate.gate()?;
    if command.shown.watch {
        return watch(command, &gate, printer);
    }
    let status = gate.status().map_err(|error| failed(&gate, &error))?;
    match command.shown.output {
        FleetOutput::Json => printer.json(&status.text),
        _ => printer.stdout(&text::status(&status.body)),
    }
    Ok(Exit::Fine)
}

fn watch(command: &Status, gate: &GateClient, printer: &Printer) -> Ended {
    let mut view = View::new(command.shown.output);
    let mut last_answer = Instant::now();
    loop {
        match gate.status() {
            Ok(answer) => {
                last_answer = Instant::now();
                match command.shown.output {
                    FleetOutput::Json => printer.json(&answer.text),
                    _ => view.show(&answer.body, printer),
                }
                if is_open(&answer.body.state) {
                    return Ok(Exit::Fine);
                }
            }
            Err(error) if last_answer.elapsed() >= SILENCE => {
                return Err(failed(gate, &error).into());
            }
            Err(error) => view.say(&error_text(gate, &error), printer),
        }
        sleep(command.shown.interval.duration().max(SHORTEST));
    }
}

/// The output of `--watch` on a terminal or as lines.
struct View {
    screen: Option<Screen>,
    shown_text: String,
}

impl View {
    fn new(output: FleetOutput) -> Self {
        let in_place = output == FleetOutput::Text && can_redraw(&std::io::stdout());
        let screen = in_place.then(|| Screen::new("a larger terminal"));
        Self { screen, shown_text: String::new() }
    }

    fn show(&mut self, status: &laststream_gate::Status, printer: &Printer) {
        self.shown_text.clear();
        match &mut self.screen {
            Some(screen) => screen.draw(&text::status(status), None, printer),
            None => printer.stdout(&text::line(status)),
        }
    }

    /// Prints a warning once, until there is something new to show.
    fn say(&mut self, what: &str, printer: &Printer) {
        if self.shown_text != what {
            printer.warning(&what);
            what.clone_into(&mut self.shown_text);
            if let Some(screen) = &mut self.screen {
                screen.forget();
            }
        }
    }
}
