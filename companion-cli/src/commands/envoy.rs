//! `laststream envoy …`

use laststream::envoy::{self, Wanted};

use crate::cli::Envoy;
use crate::commands::Exit;
use crate::printer::Printer;

pub(super) fn run(command: &Envoy, printer: &Printer) -> Exit {
    let Envoy::Get(get) = command;
    let wanted = Wanted::version(get.version);
    let wanted = Wanted { offline: get.offline || wanted.offline, ..wanted };
    match envoy::find_or_get(&wanted, printer) {
        Ok(envoy) => {
            printer.data(&envoy.binary.display().to_string());
            Exit::Fine
        }
        Err(error) => {
            printer.error(&error);
            Exit::Failed
        }
    }
}
