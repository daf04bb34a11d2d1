//! The `laststream` command line: parses the arguments and runs one command.

mod args;
mod cli;
mod commands;
mod completion;
mod dispatch;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod examples;
mod guard;
mod input;
mod overview;
mod plugin;
mod screen;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};
use laststream_hook::print_usage;

use crate::cli::Arguments;
use crate::commands::{Exit, Printer};
use crate::plugin::CalledAs;

fn main() -> ExitCode {
    completion::answer_shell();
    let printer = Printer::default();
    let called_as = CalledAs::of(std::env::args_os().next().as_ref());
    let exit = match called_as {
        CalledAs::Completer => {
            printer.stdout(&completion::for_kubectl(std::env::args_os().skip(1)));
            Exit::Fine
        }
        CalledAs::Itself | CalledAs::Plugin => match parse(called_as) {
            Ok(arguments) => dispatch::run(arguments),
            Err(error) => usage(&error, called_as, &printer),
        },
    };
    ExitCode::from(exit.code())
}

fn parse(called_as: CalledAs) -> Result<Arguments, clap::Error> {
    let name = std::env::args_os().nth(1).unwrap_or_default();
    let is_hidden = Arguments::is_hidden(&name.to_string_lossy());
    let whole = if is_hidden { Arguments::command() } else { Arguments::shown() };
    let mut command = called_as.name(whole);
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

fn usage(error: &clap::Error, called_as: CalledAs, printer: &Printer) -> Exit {
    let text = called_as.help(error.render().ansi().to_string());
    let name = std::env::args_os().nth(1).unwrap_or_default();
    let way_out = overview::way_out(&name.to_string_lossy());
    match way_out.filter(|_| error.use_stderr()) {
        Some(way_out) => {
            printer.error(&way_out);
            Exit::Usage
        }
        None => print_usage(error.kind(), &text, printer),
    }
}
