//! Decides whether Envoy can load a module, and gives the reasons if it cannot.

use std::collections::BTreeMap;

use serde::Serialize;

use super::analysis::{Abi, Module, analyse};
use super::host_calls::{looked_for, offered};

/// A reason why a module cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Obstacle {
    /// The reason, as the end of “it cannot be loaded because …”.
    pub because: String,
    /// The first version of Envoy for which it is no obstacle, if there is one.
    pub until: Option<&'static str>,
}

impl Obstacle {
    fn always(because: impl Into<String>) -> Self {
        Self { because: because.into(), until: None }
    }
}

/// Everything that keeps Envoy from loading a module. If the list is empty, the module loads.
#[must_use]
pub fn obstacles(module: &Module) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    if module.abi.is_none() {
        obstacles.push(Obstacle::always(
            "it exports none of `proxy_abi_version_0_2_1`, `proxy_abi_version_0_2_0` and \
                `proxy_abi_version_0_1_0`: it is no proxy-wasm module",
        ));
    }
    // A module without an ABI version is checked like one with the newest ABI.
    let abi = module.abi.unwrap_or(Abi::V0_2_1);
    obstacles.extend(of_imports(module, abi));
    obstacles.extend(of_exports(module, abi));
    obstacles.extend(of_memory(module));
    obstacles
}

/// The module, if it loads into every supported Envoy. The error is the end of a sentence about it.
pub(crate) fn loadable(bytes: &[u8]) -> Result<Module, String> {
    let module = analyse(bytes)?;
    let because: Vec<String> =
        obstacles(&module).into_iter().map(|obstacle| obstacle.because).collect();
    if because.is_empty() {
        Ok(module)
    } else {
        Err(format!("does not load into Envoy, because {}", because.join("; and ")))
    }
}

fn of_imports(module: &Module, abi: Abi) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    let mut later = BTreeMap::<_, Vec<_>>::new();
    for import in &module.imports {
        let name = format!("`{}.{}`", import.module, import.name);
        match import.kind.as_str() {
            "memory" | "table" => {}
            "global" | "tag" => obstacles.push(Obstacle::always(format!(
                "it imports the {} {name}, and Envoy offers none",
                import.kind
            ))),
            signature => match offered(abi, &import.module)
                .into_iter()
                .find(|function| function.name == import.name)
            {
                None => obstacles.push(Obstacle::always(format!(
                    "it imports {name}, which Envoy does not offer to ABI {abi}"
                ))),
                Some(function) if function.signature != signature => {
                    obstacles.push(Obstacle::always(format!(
                        "it imports {name} as `{signature}`, and Envoy has it as `{}`",
                        function.signature
                    )))
                }
                Some(function) => later.entry(function.since).or_default().push(name),
            },
        }
    }
    let later = later.into_iter().filter_map(|(since, names)| Some((since?, names.join(", "))));
    obstacles.extend(later.map(|(since, names)| Obstacle {
        because: format!("it imports {names}, which came with Envoy {since}"),
        until: Some(since),
    }));
    obstacles
}

fn of_exports(module: &Module, abi: Abi) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    if !module
        .exports
        .iter()
        .any(|export| ["malloc", "proxy_on_memory_allocate"].contains(&export.name.as_str()))
    {
        obstacles.push(Obstacle::always(
            "it exports neither `malloc` nor \
            `proxy_on_memory_allocate`, so Envoy cannot hand it anything",
        ));
    }
    let wanted = looked_for(abi);
    for export in &module.exports {
        if let Some(wanted) = wanted.iter().find(|function| function.name == export.name)
            && wanted.signature != export.kind
        {
            let because = format!(
                "its export `{}` is `{}`, and Envoy wants `{}`",
                export.name, export.kind, wanted.signature
            );
            obstacles.push(Obstacle::always(because));
        }
    }
    obstacles
}

fn of_memory(module: &Module) -> Option<Obstacle> {
    match module.memory {
        Some(memory) if memory.wide => {
            Some(Obstacle::always("its memory has addresses of 64 bits, and Envoy's have 32"))
        }
        Some(memory) if memory.reachable => None,
        _ => Some(Obstacle::always("it exports no memory, so Envoy cannot hand it anything")),
    }
}
