//! Analysis of a module without running it: whether it is valid and for proxies, and whether it is
//! laststream's, in which version.

use std::collections::BTreeMap;

use laststream_filter::identity::{self, Identity};
use serde::Serialize;
use wasmparser::{BinaryReaderError, Parser, Payload, Validator, WasmFeatures};

use laststream_base::digest::Digest;
use laststream_oci::image::TITLE;

/// A module, as far as its bytes describe it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Module {
    pub size: u64,
    pub sha256: String,
    pub kind: ModuleKind,
    /// The version of laststream, if this is one of its modules.
    pub version: Option<String>,
    /// The version of laststream's configuration, if this is one of its modules.
    pub configuration: Option<u32>,
    /// The names of its imports, such as `env.proxy_log`.
    #[serde(skip)]
    pub imports: Vec<String>,
    #[serde(skip)]
    pub exports: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModuleKind {
    #[strum(to_string = "laststream's module")]
    Module,
    #[strum(to_string = "laststream's frame filter")]
    FrameFilter,
    /// Not one of laststream's.
    #[strum(to_string = "a module that is not of laststream")]
    Foreign,
}

impl ModuleKind {
    /// The annotations of the module's image. They do not depend on machine or time.
    pub fn annotations(self) -> BTreeMap<String, String> {
        let (title, description) = match self {
            Self::FrameFilter => {
                ("laststream-frames", "Ends WebSockets in Envoy with a close frame")
            }
            Self::Module | Self::Foreign => (
                "laststream",
                "Counts the HTTP streams in flight in Envoy, and restores the original scheme",
            ),
        };
        let annotations = [
            (TITLE, title),
            ("org.opencontainers.image.description", description),
            ("org.opencontainers.image.licenses", env!("CARGO_PKG_LICENSE")),
            ("org.opencontainers.image.source", env!("CARGO_PKG_REPOSITORY")),
        ];
        annotations.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }
}

/// An export of the frame filter only.
const OF_FRAMES: &str = "proxy_on_request_body";

pub fn analyse(bytes: &[u8]) -> Result<Module, String> {
    if let Some(other) = something_else(bytes) {
        return Err(other.to_owned());
    }
    let damaged = |error: BinaryReaderError| format!("is a damaged module: {error}");
    Validator::new_with_features(WasmFeatures::all()).validate_all(bytes).map_err(damaged)?;
    let mut reader = Reader::default();
    for payload in Parser::new(0).parse_all(bytes) {
        reader.payload(payload.map_err(damaged)?).map_err(damaged)?;
    }
    let Reader { imports, exports, identity } = reader;
    if !exports.iter().any(|name| name.starts_with("proxy_abi_version_")) {
        return Err("is no module for proxies: it exports no `proxy_abi_version_…`".to_owned());
    }
    let kind = match &identity {
        None => ModuleKind::Foreign,
        Some(_) if exports.iter().any(|name| name == OF_FRAMES) => ModuleKind::FrameFilter,
        Some(_) => ModuleKind::Module,
    };
    Ok(Module {
        size: bytes.len() as u64,
        sha256: Digest::of(bytes).hex().to_owned(),
        kind,
        version: identity.as_ref().map(|identity| identity.version.clone()),
        configuration: identity.map(|identity| identity.configuration),
        imports,
        exports,
    })
}

/// Names other file types that users mistake for a module.
fn something_else(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [] => Some("is empty"),
        [0x1f, 0x8b, ..] => Some("is compressed with gzip: unpack it first"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("is compressed with zstd: unpack it first"),
        [b'P', b'K', 3, 4, ..] => Some("is a zip archive: unpack it first"),
        [0, b'a', b's', b'm', ..] if Parser::is_component(bytes) => Some(
            "is a WebAssembly component, and Envoy takes core modules only: build it for \
                `wasm32-unknown-unknown`, as a cdylib",
        ),
        [0, b'a', b's', b'm', ..] => None,
        _ => Some("is not WebAssembly: it does not begin with `\\0asm`"),
    }
}

/// Collects the contents of the sections.
#[derive(Default)]
struct Reader {
    imports: Vec<String>,
    exports: Vec<String>,
    identity: Option<Identity>,
}

impl Reader {
    fn payload(&mut self, payload: Payload<'_>) -> Result<(), BinaryReaderError> {
        match payload {
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import?;
                    self.imports.push(format!("{}.{}", import.module, import.name));
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    self.exports.push(export?.name.to_owned());
                }
            }
            Payload::CustomSection(section) if section.name() == identity::SECTION => {
                self.identity = Identity::read(section.data());
            }
            _ => {}
        }
        Ok(())
    }
}
