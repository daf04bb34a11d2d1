//! `laststream push`

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use laststream_base::digest::Digest;
use laststream_base::env_vars;
use laststream_module::analysis::{Kind, analyse};
use laststream_module::{builtin, builtin_frames, inspect};
use laststream_oci::image::{Image, Reference, VARIANT};
use laststream_oci::registry::credentials::Sources;
use laststream_oci::registry::{Options, Registries, Registry};
use laststream_oci::sign;
use serde_json::json;

use crate::args::registry::RegistryArgs;
use crate::commands::{Ended, Exit, Failure, Output, Printer, misused};
use crate::input::{LARGEST_MODULE, read};

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
    #[arg(long, value_name = "FILE", default_value = BUILTIN)]
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

const BUILTIN: &str = "builtin";
const BUILTIN_FRAMES: &str = "builtin-frames";

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
        kind: Kind,
        options: &Options,
        sources: &Sources,
        printer: &Printer,
    ) -> Result<(), String> {
        let registries = Registries::of(&self.references, options, sources, printer)?;
        let digests = registries.digests()?;
        let after = &image.digest;
        let mut moves = Vec::new();
        for (target, before) in registries.iter().zip(digests) {
            let Some(before) = before.filter(|before| before != after) else { continue };
            let other = other_content(target, kind, printer);
            if let Some(other) = other.filter(|_| !self.replace) {
                return Err(format!(
                    "{other}: push to another name, or give `--replace`\nnothing was published: no \
                        tag has changed"
                ));
            }
            moves.push(format!("the tag `{}` moves from {before} to {after}", target.0));
        }
        moves.iter().for_each(|moved| printer.warning(moved));
        registries.publish(image)
    }

    /// The module, and which one it is.
    fn load(&self) -> Result<(Vec<u8>, Kind), Failure> {
        let carried = match self.module.to_str() {
            Some(BUILTIN) => Some(builtin()),
            Some(BUILTIN_FRAMES) => Some(builtin_frames()),
            _ => None,
        };
        if let Some(module) = carried {
            let missing = |reason| {
                format!(
                    "this laststream carries no module ({reason}): name one with `--module FILE`"
                )
            };
            let module = module.map_err(missing)?;
            return Ok((module.to_vec(), analyse(module)?.kind));
        }
        let module = read(&self.module, LARGEST_MODULE)?;
        let kind = analyse(&module).and_then(|module| match module.kind {
            Kind::Foreign => Err("is a module that is not of laststream".to_owned()),
            kind => Ok(kind),
        });
        match kind {
            Ok(kind) => Ok((module, kind)),
            Err(problem) => {
                let text = format!("`{}` {problem}", self.module.display());
                Err(Failure { exit: Exit::Negative, ..text.into() })
            }
        }
    }

    /// The standard annotations, replaced by those of the command line.
    fn annotations(&self, kind: Kind) -> BTreeMap<String, String> {
        let mut annotations = kind.annotations();
        annotations.extend(self.annotations.iter().cloned());
        annotations
    }

    fn print_result(&self, image: &Image, module: &[u8], kind: Kind, printer: &Printer) {
        match self.output {
            Output::Text => {
                if self.dry_run {
                    printer.stdout_verbatim(&String::from_utf8_lossy(&image.manifest));
                }
                printer.stdout(&self.text(image, module));
                self.say_next_steps(kind, printer);
            }
            Output::Json => {
                for reference in &self.references {
                    let (repository, digest) = (reference.name(), &image.digest);
                    // The field names of similar tools.
                    let json = json!({
                        "url": format!("oci://{repository}@{digest}"),
                        "repository": repository,
                        "tag": reference.tag,
                        "digest": digest.as_str(),
                    });
                    printer.json(&json.to_string());
                }
            }
        }
    }

    fn say_next_steps(&self, kind: Kind, printer: &Printer) {
        let Some(reference) = self.references.first().filter(|_| !self.dry_run) else { return };
        let field = match kind {
            Kind::FrameFilter => format!("websockets: {{module: oci://{reference}, routes: …}}"),
            Kind::Module | Kind::Foreign => format!("module: oci://{reference}"),
        };
        printer.status_line(&format!(
            "next: write `{field}` into policy.yaml, and run\n\
                laststream render all --policy policy.yaml --output-dir FOLDER"
        ));
    }

    fn text(&self, image: &Image, module: &[u8]) -> String {
        let mut lines: Vec<String> = self.references.iter().map(ToString::to_string).collect();
        lines.extend(self.names().iter().map(|name| format!("oci://{name}@{}", image.digest)));
        lines.push(format!("manifest digest: {}", image.digest));
        lines.push(
            "  belongs to oci://: without `sha256:` it is the `sha256` in an EnvoyFilter, \
                WasmPlugin or EnvoyExtensionPolicy"
                .to_owned(),
        );
        lines.push(format!("module sha256:   {}", Digest::of(module).hex()));
        lines.push(
            "  belongs to http:// and https://: it is the `sha256` where the module is \
            fetched as a file"
                .to_owned(),
        );
        lines.join("\n")
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

/// Looks at the image that a tag points to before the push. Returns the reason to leave the tag
/// there: the image holds something else than the module that is pushed.
fn other_content(
    (reference, registry): (&Reference, &Registry<'_>),
    kind: Kind,
    printer: &Printer,
) -> Option<String> {
    let remote = inspect::image(registry, reference).map(|found| found.module);
    let other_kind = match remote {
        Ok(Some(module)) if module.kind == kind => None,
        Ok(Some(module)) => Some(module.kind.to_string()),
        Ok(None) => Some("no module of laststream".to_owned()),
        Err(error) => {
            printer.warning(&format!("`{reference}` cannot be looked at: {error}"));
            None
        }
    };
    other_kind.map(|held| format!("`{reference}` holds {held}, and this push has {kind}"))
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
