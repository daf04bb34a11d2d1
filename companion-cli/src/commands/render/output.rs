//! The rendered files: written, printed, or compared with a folder.

use std::path::Path;

use laststream_policy::{Policy, Sizing};
use laststream_render::output::{self, Difference};
use laststream_render::{self as render, Rendered};

use super::args::Render;
use crate::commands::{Ended, Exit, Printer, misused};

pub(super) fn deliver(
    command: &Render,
    policy: &Policy,
    rendered: &Rendered,
    printer: &Printer,
) -> Ended {
    if let Some(folder) = command.check.as_ref().or(command.diff.as_ref()) {
        return compare(command, folder, rendered, printer);
    }
    if !policy.given.is_empty() {
        printer.status_line(&format!("the profile gave {}", policy.given.join(", ")));
    }
    if command.output_dir == Path::new("-") {
        return print(rendered, printer);
    }
    let paths = output::write(&command.output_dir, rendered)?;
    let differences = output::differences(&command.output_dir, rendered, command.is_all())?;
    paths.iter().for_each(|name| {
        printer.status_line(&format!("wrote {}", command.output_dir.join(name).display()))
    });
    differences.iter().for_each(|difference| printer.warning(difference));
    if !paths.is_empty() {
        say_times_and_next_steps(command, policy, rendered, printer);
    }
    Ok(Exit::Fine)
}

fn say_times_and_next_steps(
    command: &Render,
    policy: &Policy,
    rendered: &Rendered,
    printer: &Printer,
) {
    // `laststream exec` ends the pod of a Job, not a stop hook.
    if policy.gate_port.is_some() && policy.file.job.is_none() {
        let Sizing { longest_request, grace_period, .. } = &policy.sizing;
        printer.status_line(&format!(
            "for requests of up to {longest_request}: a pod that stops cuts longer ones; its grace \
                period is {grace_period} (`drain.longest_request` changes both)"
        ));
    }
    if command.is_all() {
        let folder = command.output_dir.display().to_string();
        printer.status_line("next:");
        let steps = render::next_steps(policy, rendered, &folder);
        steps.iter().for_each(|step| printer.status_line(&format!("  {step}")));
    }
}

/// Prints one file. Several files are an error, because some are no objects, and `kubectl apply`
/// would apply only half of them.
fn print(rendered: &Rendered, printer: &Printer) -> Ended {
    if let [file] = rendered.files.as_slice() {
        printer.stdout_verbatim(&file.text);
        return Ok(Exit::Fine);
    }
    let names: Vec<&str> = rendered.files.iter().map(|file| file.name.as_str()).collect();
    Err(misused(format!(
        "these are several files, not all of them for `kubectl apply`: {}; name a folder: \
            `--output-dir DIR`",
        names.join(", ")
    )))
}

fn compare(command: &Render, folder: &Path, rendered: &Rendered, printer: &Printer) -> Ended {
    let differences = output::differences(folder, rendered, command.is_all())?;
    for difference in &differences {
        if let Difference::Changed(_, diff) = difference {
            printer.stdout(diff);
        }
        printer.status_line(&difference.to_string());
    }
    let is_wrong = command.check.is_some() && !differences.is_empty();
    Ok(if is_wrong { Exit::Negative } else { Exit::Fine })
}
