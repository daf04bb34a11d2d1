//! `laststream config …`

use std::io::{self, Read as _};
use std::path::Path;

use laststream_filter::config;

use crate::cli::{Check, Config};
use crate::commands::Exit;
use crate::printer::Printer;

pub(super) fn run(command: &Config, printer: &Printer) -> Exit {
    match command {
        Config::Schema => {
            printer.data(&format!("{:#}", config::schema::schema()));
            Exit::Fine
        }
        Config::Check(check) => run_check(check, printer),
    }
}

fn run_check(check: &Check, printer: &Printer) -> Exit {
    let text = match read(&check.file) {
        Ok(text) => text,
        Err(error) => {
            printer.error(&format!("cannot read `{}`: {error}", check.file.display()));
            return Exit::Failed;
        }
    };
    match config::parse(&text) {
        Ok(config) => {
            for warning in config.warnings() {
                printer.warning(&warning);
            }
            printer.data(&config.summary());
            Exit::Fine
        }
        Err(refused) => {
            for problem in &refused.0 {
                printer.error(problem);
            }
            Exit::Found
        }
    }
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    if file == Path::new("-") {
        let mut text = Vec::new();
        io::stdin().lock().read_to_end(&mut text)?;
        Ok(text)
    } else {
        std::fs::read(file)
    }
}
