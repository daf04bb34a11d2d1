//! The project's targets for its cost, and whether it reaches them.

use std::fmt::Write as _;

use serde::Serialize;

use crate::variants::{
    ALB_CHANGED, ALB_CHANGED_COMPOSITE, ALB_CHANGED_WASM, BY_ENVOY_ALB_CHANGED,
    BY_ENVOY_PORT_CHANGED, COUNTING, GATE_COUNTING, LUA_PORT, PORT_CHANGED, PORT_CHANGED_COMPOSITE,
    PORT_CHANGED_WASM,
};
use crate::{instructions, latency, memory};

/// A limit that a figure must not exceed, a better one to aim at, and the figure.
#[derive(Serialize)]
pub(crate) struct Target {
    pub(crate) what: String,
    /// The name of the variant; empty if the target has none.
    pub(crate) variant: String,
    pub(crate) unit: String,
    pub(crate) must: f64,
    pub(crate) aim: f64,
    pub(crate) is: f64,
}

/// Instructions over no filter, as multiples of the Lua that does equal work: variant, title, must,
/// aim.
const MULTIPLES: [(&str, &str, f64, f64); 9] = [
    (BY_ENVOY_PORT_CHANGED, "counting by Envoy + x-forwarded-proto, in Istio 1.31", 0.62, 0.58),
    (BY_ENVOY_ALB_CHANGED, "the same by `aws_alb`", 0.72, 0.68),
    (COUNTING, "counting only", 0.70, 0.50),
    (PORT_CHANGED, "counting + x-forwarded-proto as rendered, changed", 1.2, 0.9),
    (PORT_CHANGED_WASM, "the same, Wasm engine", 1.7, 1.2),
    (PORT_CHANGED_COMPOSITE, "the same, in Istio 1.31 (composite)", 1.15, 1.08),
    (ALB_CHANGED, "by `aws_alb`, as rendered, changed", 1.2, 0.9),
    (ALB_CHANGED_WASM, "the same, Wasm engine", 1.7, 1.2),
    (ALB_CHANGED_COMPOSITE, "the same, in Istio 1.31 (composite)", 1.11, 1.05),
];
/// The tolerance for no difference, because two counts are never exactly equal.
const NOTHING: f64 = 500.0;
const MODULE_KILOBYTES: (f64, f64) = (250.0, 180.0);
const MEMORY_OVER_LUA: f64 = 2048.0;
const GATE_MILLIS: f64 = 2.0;
/// A request for the status waits for the counters, and for the gate's next tick: so many
/// milliseconds.
const TICK: f64 = 10.0;

/// The targets whose figures were measured.
pub(crate) fn reached(
    rows: &[instructions::Row],
    memory: &[memory::Row],
    gate: Option<&latency::Gate>,
    module_bytes: usize,
) -> Vec<Target> {
    let row = |name: &str| rows.iter().find(|row| row.name == name);
    let over = |name: &str| row(name).map(|row| row.over.middle);
    let memory =
        |name: &str| memory.iter().find(|row| row.name == name).map(|row| row.worker.middle);
    let mut targets = Vec::new();
    let mut add = |what: &str, variant: &str, unit: &str, (must, aim), is: Option<f64>| {
        let [what, variant, unit] = [what, variant, unit].map(String::from);
        targets.extend(is.map(|is| Target { what, variant, unit, must, aim, is }));
    };
    for (variant, what, must, aim) in MULTIPLES {
        let is = row(variant).and_then(|row| row.lua);
        add(what, variant, "× equal-work Lua", (must, aim), is);
    }
    let idle = over(GATE_COUNTING).zip(over(COUNTING)).map(|(with, without)| with - without);
    let unit = "instructions over counting only";
    add("gate installed, idle", GATE_COUNTING, unit, (NOTHING, NOTHING), idle);
    let module = (!rows.is_empty()).then_some(module_bytes as f64 / 1000.0);
    add("module", "", "kB", MODULE_KILOBYTES, module);
    let worker = memory(PORT_CHANGED_WASM).zip(memory(LUA_PORT)).map(|(own, lua)| own - lua);
    let (unit, bounds) = ("kB over a Lua filter's", (MEMORY_OVER_LUA, MEMORY_OVER_LUA));
    add("memory of a worker, Wasm engine", PORT_CHANGED_WASM, unit, bounds, worker);
    let gate = gate.map(|gate| gate.over_plain.middle / 1000.0 - TICK);
    let unit = "ms over a listener without any filter and the tick";
    add("status of the gate under full load, p99", "", unit, (GATE_MILLIS, GATE_MILLIS), gate);
    targets
}

impl Target {
    fn in_words(&self) -> &'static str {
        match (self.is <= self.aim, self.is <= self.must) {
            (true, _) => "reached",
            (_, true) => "good, not yet the aim",
            _ => "MISSED",
        }
    }
}

pub(crate) fn table(targets: &[Target]) -> String {
    let mut table =
        String::from("| what | unit | must | aim | is | |\n|---|---|--:|--:|--:|---|\n");
    for target in targets {
        let verdict = target.in_words();
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {:.2} | {verdict} |",
            target.what, target.unit, target.must, target.aim, target.is
        );
    }
    table
}
