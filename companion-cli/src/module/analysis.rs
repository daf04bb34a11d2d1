//! Analysis of a module without running it: whether it is valid, its imports and exports, and its
//! version of laststream.

use laststream_filter::identity::{self, Identity};
use serde::Serialize;
use wasmparser::{FuncType, Parser, Payload, TypeRef, Validator, WasmFeatures};

use super::signature::signature;
use crate::base::digest::Digest;

/// A module, as far as its bytes describe it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Module {
    /// The size in bytes.
    pub size: u64,
    /// The SHA-256 of the bytes, in hexadecimal.
    pub sha256: String,
    /// The version of the proxy-wasm ABI; `None` if it exports no version that Envoy knows.
    pub abi: Option<Abi>,
    /// The version of laststream, if this is one of its modules.
    pub version: Option<String>,
    /// The version of laststream's configuration, if this is one of its modules.
    pub configuration: Option<u32>,
    /// Its memory, if it has one.
    pub memory: Option<Memory>,
    /// Its imports from Envoy.
    pub imports: Vec<Import>,
    /// Its exports.
    pub exports: Vec<Export>,
    /// Custom sections, which do not affect the execution.
    pub custom_sections: Vec<CustomSection>,
}

/// Versions of the proxy-wasm ABI that Envoy knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, Serialize)]
pub enum Abi {
    /// 0.1.0
    #[serde(rename = "0.1.0")]
    #[strum(to_string = "0.1.0")]
    V0_1_0,
    /// 0.2.0
    #[serde(rename = "0.2.0")]
    #[strum(to_string = "0.2.0")]
    V0_2_0,
    /// 0.2.1
    #[serde(rename = "0.2.1")]
    #[strum(to_string = "0.2.1")]
    V0_2_1,
}

impl Abi {
    const ALL: [(Self, &'static str); 3] = [
        (Self::V0_1_0, "proxy_abi_version_0_1_0"),
        (Self::V0_2_0, "proxy_abi_version_0_2_0"),
        (Self::V0_2_1, "proxy_abi_version_0_2_1"),
    ];
}

/// A linear memory, in pages of 64 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// The size at the beginning.
    pub pages: u64,
    /// The largest size; `None` if the module sets no limit.
    pub most_pages: Option<u64>,
    /// Whether Envoy can reach it: it is exported, or imported from Envoy.
    pub reachable: bool,
    /// Whether it has 64-bit addresses.
    pub wide: bool,
}

/// An import of the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Import {
    /// The name of the Wasm module that it comes from.
    pub module: String,
    /// Its name there.
    pub name: String,
    /// The type of a function, such as `i32 i64 -> i32`; else the kind, such as `memory`.
    pub kind: String,
}

/// An export of the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Export {
    /// Its name.
    pub name: String,
    /// As in [`Import::kind`].
    pub kind: String,
}

/// A custom section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CustomSection {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
}

/// Analyses a module.
///
/// # Errors
/// Says which other kind of file it is, or where the module is damaged.
pub fn analyse(bytes: &[u8]) -> Result<Module, String> {
    if let Some(other) = something_else(bytes) {
        return Err(other.to_owned());
    }
    let damaged = |error: wasmparser::BinaryReaderError| format!("is a damaged module: {error}");
    Validator::new_with_features(WasmFeatures::all()).validate_all(bytes).map_err(damaged)?;
    let mut reader = Reader::default();
    for payload in Parser::new(0).parse_all(bytes) {
        reader.payload(payload.map_err(damaged)?).map_err(damaged)?;
    }
    let identity = reader.identity;
    Ok(Module {
        size: bytes.len() as u64,
        sha256: Digest::of(bytes).hex().to_owned(),
        // Envoy, too, takes the first one in the order of the exports.
        abi: reader.exports.iter().find_map(|export| {
            Abi::ALL.iter().find(|(_, name)| *name == export.name).map(|(abi, _)| *abi)
        }),
        version: identity.as_ref().map(|identity| identity.version.clone()),
        configuration: identity.map(|identity| identity.configuration),
        memory: reader.memory,
        imports: reader.imports,
        exports: reader.exports,
        custom_sections: reader.custom_sections,
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
    types: Vec<Option<FuncType>>,
    /// The types of all functions, imported ones first.
    functions: Vec<u32>,
    memory: Option<Memory>,
    imports: Vec<Import>,
    exports: Vec<Export>,
    custom_sections: Vec<CustomSection>,
    identity: Option<Identity>,
}

impl Reader {
    fn payload(&mut self, payload: Payload<'_>) -> Result<(), wasmparser::BinaryReaderError> {
        match payload {
            Payload::TypeSection(section) => self.types(section)?,
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import?;
                    self.import(import.module, import.name, import.ty);
                }
            }
            Payload::FunctionSection(section) => {
                for function in section {
                    self.functions.push(function?);
                }
            }
            Payload::MemorySection(section) => {
                for memory in section {
                    self.memory.get_or_insert(of_type(&memory?, false));
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    self.export(&export?);
                }
            }
            Payload::CustomSection(section) => {
                self.custom_sections.push(CustomSection {
                    name: section.name().to_owned(),
                    size: section.data().len() as u64,
                });
                if section.name() == identity::SECTION {
                    self.identity = Identity::read(section.data());
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn types(
        &mut self,
        section: wasmparser::TypeSectionReader<'_>,
    ) -> Result<(), wasmparser::BinaryReaderError> {
        for group in section {
            self.types.extend(group?.into_types().map(|sub| match sub.composite_type.inner {
                wasmparser::CompositeInnerType::Func(function) => Some(function),
                _ => None,
            }));
        }
        Ok(())
    }

    fn import(&mut self, module: &str, name: &str, of: TypeRef) {
        let kind = match of {
            TypeRef::Func(function) | TypeRef::FuncExact(function) => {
                self.functions.push(function);
                self.signature(function)
            }
            TypeRef::Memory(memory) => {
                self.memory.get_or_insert(of_type(&memory, true));
                "memory".to_owned()
            }
            TypeRef::Table(_) => "table".to_owned(),
            TypeRef::Global(_) => "global".to_owned(),
            TypeRef::Tag(_) => "tag".to_owned(),
        };
        self.imports.push(Import { module: module.to_owned(), name: name.to_owned(), kind });
    }

    fn export(&mut self, export: &wasmparser::Export<'_>) {
        use wasmparser::ExternalKind::{Func, FuncExact, Global, Memory, Table, Tag};
        let kind = match export.kind {
            Func | FuncExact => self
                .functions
                .get(export.index as usize)
                .map_or_else(|| "function".to_owned(), |function| self.signature(*function)),
            Memory => {
                if let Some(memory) = &mut self.memory {
                    memory.reachable = true;
                }
                "memory".to_owned()
            }
            Table => "table".to_owned(),
            Global => "global".to_owned(),
            Tag => "tag".to_owned(),
        };
        self.exports.push(Export { name: export.name.to_owned(), kind });
    }

    fn signature(&self, function: u32) -> String {
        let Some(Some(function)) = self.types.get(function as usize) else {
            return "function".to_owned();
        };
        let types = |types: &[wasmparser::ValType]| {
            types.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        signature(&types(function.params()), &types(function.results()))
    }
}

fn of_type(memory: &wasmparser::MemoryType, reachable: bool) -> Memory {
    Memory { pages: memory.initial, most_pages: memory.maximum, reachable, wide: memory.memory64 }
}
