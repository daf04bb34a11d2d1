//! The README's table of the cost shows the last measurement: `cargo bench` writes
//! docs/cost/results.json.

use serde_json::Value;

use super::read;
use kit::{Context as _, Outcome};

const FILE: &str = "docs/cost/results.json";

/// The README's three numbers, with the Envoy and the module. All other numbers, and the machine,
/// are in docs/cost/results.md.
pub(super) fn table() -> Outcome<String> {
    let results: Value = serde_json::from_str(&read(FILE)?).context(FILE)?;
    let mut table = String::from("| over no filter | it costs |\n|---|---|\n");
    for (name, what) in [
        ("counting", "counting"),
        ("alb-changed-wasm", "counting, and restoring the scheme from the headers of `aws_alb`"),
    ] {
        let row = row(&results, "instructions", name)?;
        let thousands = middle(row, "over")? / 1000.0;
        let lua = row["lua"].as_f64().with_context(|| format!("{FILE}: no lua in {row}"))?;
        table.push_str(&format!(
            "| {what} | {thousands:.1}k instructions per request, {lua:.2} × a Lua filter for the \
             scheme |\n"
        ));
    }
    let memory = row(&results, "memory", "counting")?;
    let megabytes = |field: &str| middle(memory, field).map(|kilobytes| kilobytes / 1000.0);
    let (first, further) = (megabytes("first")?, megabytes("worker")?);
    table.push_str(&format!(
        "| memory | {first:.1} MB for the first worker, {further:.1} MB for each further one |\n"
    ));
    let envoy =
        results["machine"]["envoy"].as_str().with_context(|| format!("{FILE}: no envoy"))?;
    let bytes = results["machine"]["module_bytes"].as_u64();
    let kilobytes = bytes.with_context(|| format!("{FILE}: no module_bytes"))? / 1000;
    table.push_str(&format!("\nMeasured with Envoy {envoy} and a module of {kilobytes} kB.\n"));
    Ok(table)
}

fn row<'a>(results: &'a Value, part: &str, name: &str) -> Outcome<&'a Value> {
    let mut rows = results[part].as_array().into_iter().flatten();
    rows.find(|row| row["name"] == name).with_context(|| format!("{FILE}: no {name} in {part}"))
}

fn middle(row: &Value, field: &str) -> Outcome<f64> {
    row[field]["middle"].as_f64().with_context(|| format!("{FILE}: no {field} in {row}"))
}
