//! The committed cost of a few variants: a change that makes them more expensive must update it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::instructions::Row;
use crate::variants::{COUNTING, LUA_PORT, PORT_CHANGED, PORT_CHANGED_WASM};
use kit::prelude::*;

const FILE: &str = "tests/cost/baseline.json";
/// A difference up to this factor may come from another machine or another compiler.
const SLACK: f64 = 1.10;

/// The variants that `--check` compares. The first, Lua, is the unit.
pub(crate) const VARIANTS: [&str; 4] = [LUA_PORT, COUNTING, PORT_CHANGED, PORT_CHANGED_WASM];

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Baseline {
    envoy: String,
    /// Figures by the variant's name.
    variants: BTreeMap<String, Figures>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Figures {
    /// Instructions per request over no filter.
    instructions: f64,
    /// The same as a multiple of the Lua that does equal work.
    lua: f64,
}

/// The verdict on each variant, and whether no variant has become more expensive.
pub(crate) fn check(envoy: &str, rows: &[Row]) -> Outcome<(String, bool)> {
    let fresh = Baseline { envoy: envoy.into(), variants: figures(rows)? };
    if std::env::var_os("LASTSTREAM_BLESS").is_some() {
        std::fs::write(path(), serde_json::to_string_pretty(&fresh)? + "\n").context(FILE)?;
        return Ok((format!("{FILE} is written anew"), true));
    }
    let known: Baseline =
        serde_json::from_slice(&std::fs::read(path()).context(FILE)?).context(FILE)?;
    ensure_eq!(known.envoy, fresh.envoy, "the Envoy of {FILE}");
    ensure_eq!(
        known.variants.keys().collect::<Vec<_>>(),
        fresh.variants.keys().collect::<Vec<_>>(),
        "the variants of {FILE}"
    );
    let (mut lines, mut good) = (Vec::new(), true);
    for ((name, before), now) in known.variants.iter().zip(fresh.variants.values()) {
        let (verdict, is_good) = verdict(before, now);
        lines.push(format!(
            "{name}: {:.0} instructions over no filter, {:.2} × the equal-work Lua; the baseline \
                is {:.0} and {:.2}: {verdict}",
            now.instructions, now.lua, before.instructions, before.lua
        ));
        good &= is_good;
    }
    if !good {
        lines.push(format!(
            "more than 10 % above {FILE}; if that is meant, `LASTSTREAM_BLESS=1 cargo bench -- \
             --check` writes it anew"
        ));
    }
    Ok((lines.join("\n"), good))
}

/// The verdict in words, and whether the variant has not become more expensive.
fn verdict(before: &Figures, now: &Figures) -> (&'static str, bool) {
    if now.instructions > before.instructions * SLACK || now.lua > before.lua * SLACK {
        ("MORE EXPENSIVE", false)
    } else if now.instructions * SLACK < before.instructions {
        ("cheaper; write the baseline anew to hold that", true)
    } else {
        ("good", true)
    }
}

/// The figures of all variants except Lua, which is the unit: the project does not change its cost.
fn figures(rows: &[Row]) -> Outcome<BTreeMap<String, Figures>> {
    let figures = |name: &str| {
        let row = rows
            .iter()
            .find(|row| row.name == name)
            .with_context(|| format!("{name} is missing"))?;
        let lua = row.lua.with_context(|| format!("no Lua beside {name}"))?;
        Ok((
            name.to_owned(),
            Figures { instructions: row.over.middle.round(), lua: (lua * 100.0).round() / 100.0 },
        ))
    };
    VARIANTS.into_iter().filter(|name| *name != LUA_PORT).map(figures).collect()
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE)
}
