//! `laststream render …`

mod args;
mod into;
mod output;

use std::path::Path;

use laststream_policy::{Overrides, Policy};
use laststream_render::{self as render, Rendered};

pub(crate) use self::args::Render;
use self::args::RenderArg;
use crate::commands::policy_images::PolicyImages;
use crate::commands::{Ended, Exit, Failure, Printer, misused};
use crate::input::{policy, policy_text};

const NOT_VERIFIED: &str = "`--digest` is used as it is: the image was not verified";

const TWO_STANDARD_INPUTS: &str =
    "policy and password cannot both come from standard input: name a file with `--policy FILE`";

pub(crate) fn run(command: &Render, printer: &Printer) -> Ended {
    command.refuse_without_effect()?;
    let kind = match command.kind {
        RenderArg::Rendered(kind) => kind,
        RenderArg::Schema => {
            printer.value(&Policy::schema());
            return Ok(Exit::Fine);
        }
    };
    let is_stdin = command.policy.as_deref() == Some(Path::new("-"));
    if is_stdin && command.registry.password_stdin {
        return Err(misused(TWO_STANDARD_INPUTS));
    }
    let policy = policy_of(command, printer)?;
    if let Some(file) = &command.into {
        return into::run(&policy, file, command.write, printer);
    }
    let images = PolicyImages::new(&command.registry, &policy, printer);
    let rendered = images.with_digests(|resolve| match command.home {
        Some(home) => render::lifecycle(&policy, home),
        None => render::render(kind, &policy, resolve),
    })?;
    let rendered = rendered?;
    verify_pinned(command, &policy, &rendered, &images, printer)?;
    rendered.warnings.iter().for_each(|warning| printer.warning(warning));
    output::deliver(command, &policy, &rendered, printer)
}

/// A digest on the command line renders without a registry; a pipeline's check of a folder needs
/// none either.
fn verify_pinned(
    command: &Render,
    policy: &Policy,
    rendered: &Rendered,
    images: &PolicyImages<'_>,
    printer: &Printer,
) -> Result<(), Failure> {
    if command.check.is_some() {
        return Ok(());
    }
    let is_rendered = |hex: &str| rendered.files.iter().any(|file| file.text.contains(hex));
    match command.digest.as_deref() {
        Some(digest) if is_rendered(digest.trim_start_matches("sha256:")) => {
            printer.status_line(NOT_VERIFIED);
            Ok(())
        }
        _ => images.compare_unused_tags(policy, is_rendered),
    }
}

/// The field `delivery` of the policy file is for images only.
const GATE_DROPPED: &str = "--module: it is not an image, so `delivery: image_volume` has no \
    effect, and without that this proxy has no gate: write `--module oci://HOST/REPOSITORY:TAG`";

fn policy_of(command: &Render, printer: &Printer) -> Result<Policy, Failure> {
    let overrides = Overrides {
        module: command.module.clone(),
        digest: command.digest.clone(),
        namespace: command.namespace.clone(),
        name: command.name.clone(),
        istio: command.istio.clone(),
        engine: command.engine,
    };
    let file = command.policy.as_deref();
    let text = policy_text(file)?;
    let policy = policy(file, "the command line", Policy::read(&text, &overrides), printer)?;
    if policy.gate_dropped {
        printer.warning(&GATE_DROPPED);
    }
    Ok(policy)
}
