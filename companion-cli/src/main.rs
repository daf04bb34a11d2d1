//! The `laststream` command line: reads the arguments, runs one command, prints what it says.

mod commands;
#[cfg(test)]
mod documents;

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;
use laststream::visible;

use crate::commands::Exit;
use crate::commands::cli::Arguments;
use crate::commands::printer::Printer;

fn main() -> ExitCode {
    let printer = Printer;
    let exit = match Arguments::try_parse() {
        Ok(arguments) => commands::run(arguments, &printer),
        Err(error) => usage(&error, &printer),
    };
    ExitCode::from(exit.code())
}

/// `--help` and `--version` are errors to clap, and data to everybody else.
fn usage(error: &clap::Error, printer: &Printer) -> Exit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            printer.coloured(&error.render().ansi().to_string());
            Exit::Fine
        }
        _ => {
            printer
                .stderr_verbatim(visible::coloured(&error.render().ansi().to_string()).trim_end());
            Exit::Usage
        }
    }
}
