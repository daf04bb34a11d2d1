//! `laststream push`

mod module;
mod result;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use laststream_base::digest::Digest;
use laststream_base::env_vars;
use laststream_module::analysis::ModuleKind;
use laststream_module::publish::{self, TagMove};
use laststream_oci::image::{Image, Reference, VARIANT};
use laststream_oci::registry::credentials::Sources;
use laststream_oci::registry::{Options, Registries};
use laststream_oci::sign;

use crate::args::registry::RegistryArgs;
use crate::commands::{Ended, Exit, Output, Printer, misused};

const EXAMPLES: &str = "\
Examples:
  laststream push registry.example.com/team/laststream:1.0.0
  laststream push --module laststream_filter.wasm ghcr.io/team/laststream:1.0.0 \
ghcr.io/team/laststream:latest
  echo \"$TOKEN\" | laststream push --username ci --password-stdin \
registry.example.com/team/laststream:1.0.0
  laststream push -o json localhost:5000/laststream:1.0.0 | jq -r '.repository + \"@\" + .digest'
  laststream push --module builtin-frames registry.example.com/team/laststream-frames:1.0.0
  laststream push --dry-run localhost:5000/laststream:1.0.0

With `-o json` each reference is one line with an object: url, repository, tag, digest.

Credentials come from the first of these that has some: --username with --password-stdin (or \
LASTSTREAM_REGISTRY_USERNAME and LASTSTREAM_REGISTRY_PASSWORD), docker's config.json \
(DOCKER_CONFIG, or ~/.docker) with its credential helpers, podman's auth.json \
(REGISTRY_AUTH_FILE, or where `podman login` writes it). After `docker login` or `podman login` no \
option is needed.";

/// Pushes the module to a container registry, as an image that Istio and Envoy Gateway can fetch.
///
/// The same module always gives the same digest. Parts that the registry already has are not sent.
/// Tags are written last, so a tag never points to a partially uploaded image.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Push {
    /// The reference to push to, such as `registry.example.com/team/laststream:1.0.0`. Give several
    /// for several tags, repositories or registries.
    #[arg(required = true, value_name = "REF")]
    references: Vec<Reference>,
    /// The module: a file, `-` for standard input, or one of the modules that this program carries:
    /// `builtin`, or `builtin-frames` for the frame filter of WebSockets.
    #[arg(long, value_name = "FILE", default_value = module::BUILTIN)]
    module: PathBuf,
    /// An annotation of the image, such as `org.opencontainers.image.version=1.0.0`. May be
    /// repeated.
    #[arg(short, long = "annotation", value_name = "KEY=VALUE", value_parser = annotation)]
    annotations: Vec<(String, String)>,
    /// Also writes the digest of the image to this file.
    #[arg(long, value_name = "FILE")]
    digest_file: Option<PathBuf>,
    /// Prints the manifest and the digests without connecting to a registry.
    #[arg(long)]
    dry_run: bool,
    /// Signs the image with `cosign`. It finds keys and credentials itself. If `cosign` is not
    /// on PATH, the program prints its command and fails.
    #[arg(long, conflicts_with = "dry_run")]
    sign: bool,
    /// Moves a tag even if it points to another kind of image, such as the frame filter in place of
    /// the module.
    #[arg(long)]
    replace: bool,
    /// The format of the result.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// Parses `KEY=VALUE`; the value may hold `=`, too.
fn annotation(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((VARIANT, _)) => Err(format!(
            "`{VARIANT}` tells fetchers how the image is laid out: it is always `compat`"
        )),
        Some((key, value)) if !key.trim().is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it as `KEY=VALUE`".to_owned()),
    }
}

const TWO_STANDARD_INPUTS: &str =
    "module and password cannot both come from standard input: name a file with `--module FILE`";

pub(crate) fn run(mut push: Push, printer: &Printer) -> Ended {
    push.references = without_repetition(push.references);
    if push.registry.password_stdin && push.module.as_os_str() == "-" {
        return Err(misused(TWO_STANDARD_INPUTS));
    }
    for reference in &push.references {
        reference.pushed_tag().map_err(misused)?;
    }
    let (module, kind) = push.load()?;
    let image = Image::of(&module, push.annotations(kind))?;
    let mut signed = Ok(());
    if push.dry_run {
        printer.status_line("nothing is sent");
    } else {
        let (options, sources) = (push.registry.options(), push.registry.sources()?);
        sources.check_registries(&push.references).map_err(misused)?;
        push.publish(&image, kind, &options, &sources, printer)?;
        if push.sign {
            signed = push.sign_all(&image.digest, &options);
        }
    }
    // Written first, because a closed pipe of the result ends this process.
    let problems = [push.write_digest(&image.digest), signed].map(Result::err);
    problems.iter().flatten().for_each(|problem| printer.error(problem));
    push.print_result(&image, &module, kind, printer);
    Ok(if problems.iter().all(Option::is_none) { Exit::Fine } else { Exit::Failed })
}

impl Push {
    fn publish(
        &self,
        image: &Image,
        kind: ModuleKind,
        options: &Options,
        sources: &Sources,
        printer: &Printer,
    ) -> Result<(), String> {
        let registries = Registries::of(&self.references, options, sources, printer)?;
        let mut moves = Vec::new();
        for TagMove { reference, from, other } in publish::tag_moves(&registries, image, kind)? {
            match other {
                Ok(Some(other)) if !self.replace => {
                    return Err(format!(
                        "`{reference}` holds {other}, and this push has {kind}: push to another \
                            name, or give `--replace`\nnothing was published: no tag has changed"
                    ));
                }
                Ok(_) => {}
                Err(error) => {
                    printer.warning(&format!("`{reference}` cannot be inspected: {error}"));
                }
            }
            moves.push(format!("the tag `{reference}` moves from {from} to {}", image.digest));
        }
        moves.iter().for_each(|moved| printer.warning(moved));
        registries.publish(image)
    }

    /// The standard annotations, replaced by those of the command line.
    fn annotations(&self, kind: ModuleKind) -> BTreeMap<String, String> {
        let mut annotations = kind.annotations();
        annotations.extend(self.annotations.iter().cloned());
        annotations
    }

    /// The names of registry and repository.
    fn names(&self) -> Vec<String> {
        without_repetition(self.references.iter().map(Reference::name))
    }

    fn write_digest(&self, digest: &Digest) -> Result<(), String> {
        let Some(file) = &self.digest_file else { return Ok(()) };
        let result = std::fs::write(file, format!("{digest}\n"));
        result.map_err(|error| {
            let file = file.display();
            let prefix = if self.dry_run { "" } else { "it is published, but " };
            format!("{prefix}`{file}` cannot be written: {error}")
        })
    }

    fn sign_all(&self, digest: &Digest, options: &Options) -> Result<(), String> {
        for name in self.names() {
            let plain_http = options.is_plain_http(name.split('/').next().unwrap_or_default());
            let (pinned, insecure) = (format!("{name}@{digest}"), options.tls.insecure);
            sign::sign(&pinned, plain_http, insecure, &env_vars::of_process)?;
        }
        Ok(())
    }
}

fn without_repetition<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut rest = Vec::new();
    for item in items {
        if !rest.contains(&item) {
            rest.push(item);
        }
    }
    rest
}
