//! The result of a push as it is printed, and the next steps.

use laststream_base::digest::Digest;
use laststream_module::analysis::ModuleKind;
use laststream_oci::image::Image;
use serde_json::json;

use super::Push;
use crate::commands::{Output, Printer};

impl Push {
    pub(super) fn print_result(
        &self,
        image: &Image,
        module: &[u8],
        kind: ModuleKind,
        printer: &Printer,
    ) {
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

    fn say_next_steps(&self, kind: ModuleKind, printer: &Printer) {
        let Some(reference) = self.references.first().filter(|_| !self.dry_run) else { return };
        let field = match kind {
            ModuleKind::FrameFilter => {
                format!("websockets: {{module: oci://{reference}, routes: …}}")
            }
            ModuleKind::Module | ModuleKind::Foreign => format!("module: oci://{reference}"),
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
}
