//! The `laststream` command line: parses the arguments and runs one command.

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

/// clap reports `--help` and `--version` as errors, but they are output.
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
