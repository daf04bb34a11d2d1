//! The README's table of the cost shows the last measurement: `cargo bench` writes
//! docs/cost/results.json.

use serde_json::Value;

use super::read;
use kit::{Context as _, Outcome};

const FILE: &str = "docs/cost/results.json";

/// The README's numbers, with the Envoy and the module. All other numbers, and the machine, are in
/// docs/cost/results.md.
pub(super) fn table() -> Outcome<String> {
    let results: Value = serde_json::from_str(&read(FILE)?).context(FILE)?;
    let mut table =
        String::from("| | instructions per request | × Lua for the scheme |\n|---|--:|--:|\n");
    for (name, what) in [
        ("by-envoy", "`count: {by: envoy}`: nothing but its latch is in the path"),
        (
            "by-envoy-alb-changed-composite",
            "the same, and the scheme from the headers of `aws_alb`, by Envoy's own matchers",
        ),
        ("counting", "counting by the filter"),
        ("alb-changed-composite", "the same, and that scheme by Envoy's own matchers"),
        ("alb-changed-wasm", "the same, and that scheme by the filter, before Istio 1.31"),
        ("lua-alb", "the same scheme by Lua, and no counting"),
    ] {
        let work = row(&results, "instructions", name)?;
        let thousands = middle(work, "over")? / 1000.0;
        let lua = work["lua"].as_f64().with_context(|| format!("{FILE}: no lua in {work}"))?;
        table.push_str(&format!("| {what} | {thousands:.1}k | {lua:.2} |\n"));
    }
    let memory = row(&results, "memory", "counting")?;
    let megabytes = |field: &str| middle(memory, field).map(|kilobytes| kilobytes / 1000.0);
    let (first, further) = (megabytes("first")?, megabytes("worker")?);
    let envoy =
        results["machine"]["envoy"].as_str().with_context(|| format!("{FILE}: no envoy"))?;
    let bytes = results["machine"]["module_bytes"].as_u64();
    let kilobytes = bytes.with_context(|| format!("{FILE}: no module_bytes"))? / 1000;
    table.push_str(&format!(
        "\nOver no filter. Memory with the filter: {first:.1} MB for the first worker, \
         {further:.1} MB for each further one.\nMeasured with Envoy {envoy} and a module of \
         {kilobytes} kB.\n"
    ));
    Ok(table)
}

fn row<'a>(results: &'a Value, part: &str, name: &str) -> Outcome<&'a Value> {
    let mut rows = results[part].as_array().into_iter().flatten();
    rows.find(|row| row["name"] == name).with_context(|| format!("{FILE}: no {name} in {part}"))
}

fn middle(row: &Value, field: &str) -> Outcome<f64> {
    row[field]["middle"].as_f64().with_context(|| format!("{FILE}: no {field} in {row}"))
}
