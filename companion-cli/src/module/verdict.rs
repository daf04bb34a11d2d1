//! Whether Envoy can load a module, and if not, why.

use serde::Serialize;

use super::analysis::{Abi, Module};
use super::host_calls::{Offer, offer, wanted_of_export};

/// Why a module cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Obstacle {
    /// What is wrong, as the end of “it cannot be loaded because …”.
    pub because: String,
    /// The first Envoy to which it is no obstacle, if there is one.
    pub until: Option<&'static str>,
}

impl Obstacle {
    fn always(because: impl Into<String>) -> Self {
        Self { because: because.into(), until: None }
    }
}

/// Everything that keeps Envoy from loading a module. Nothing: it loads.
#[must_use]
pub fn obstacles(module: &Module) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    if module.abi.is_none() {
        obstacles.push(Obstacle::always(
            "it exports none of `proxy_abi_version_0_2_1`, `proxy_abi_version_0_2_0` and `proxy_abi_version_0_1_0`: it is no proxy-wasm module",
        ));
    }
    // What the newest ABI lacks is lacking anyway.
    let abi = module.abi.unwrap_or(Abi::V0_2_1);
    obstacles.extend(of_imports(module, abi));
    obstacles.extend(of_exports(module, abi));
    obstacles.extend(of_memory(module));
    obstacles
}

fn of_imports(module: &Module, abi: Abi) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    let mut later = Vec::new();
    for import in &module.imports {
        let name = format!("`{}.{}`", import.module, import.name);
        match import.kind.as_str() {
            "memory" | "table" => {}
            "global" | "tag" => obstacles.push(Obstacle::always(format!("it imports the {} {name}, and Envoy offers none", import.kind))),
            signature => match offer(abi, &import.module, &import.name, signature) {
                Offer::Always => {}
                Offer::Since1_39 => later.push(name),
                Offer::OtherType(offered) => {
                    obstacles.push(Obstacle::always(format!("it imports {name} as `{signature}`, and Envoy has it as `{offered}`")));
                }
                Offer::Never => obstacles.push(Obstacle::always(format!("it imports {name}, which Envoy does not offer to ABI {abi}"))),
            },
        }
    }
    if !later.is_empty() {
        obstacles.push(Obstacle { because: format!("it imports {}, which came with Envoy 1.39", later.join(", ")), until: Some("1.39") });
    }
    obstacles
}

fn of_exports(module: &Module, abi: Abi) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    if !module.exports.iter().any(|export| ["malloc", "proxy_on_memory_allocate"].contains(&export.name.as_str())) {
        obstacles.push(Obstacle::always("it exports neither `malloc` nor `proxy_on_memory_allocate`, so Envoy cannot hand it anything"));
    }
    for export in &module.exports {
        if let Some(wanted) = wanted_of_export(abi, &export.name)
            && wanted != export.kind
        {
            obstacles.push(Obstacle::always(format!("its export `{}` is `{}`, and Envoy wants `{wanted}`", export.name, export.kind)));
        }
    }
    obstacles
}

fn of_memory(module: &Module) -> Option<Obstacle> {
    match module.memory {
        Some(memory) if memory.wide => Some(Obstacle::always("its memory has addresses of 64 bits, and Envoy's have 32")),
        Some(memory) if memory.reachable => None,
        _ => Some(Obstacle::always("it exports no memory, so Envoy cannot hand it anything")),
    }
}
