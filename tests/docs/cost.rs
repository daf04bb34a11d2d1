//! What the README says of the cost is what was measured last: `cargo bench` writes docs/cost/results.json.

use serde_json::Value;

use super::read;
use crate::support::failure::{Context as _, Outcome};

const FILE: &str = "docs/cost/results.json";

/// The README's table, with what it was measured on.
pub(super) fn table() -> Outcome<String> {
    let results: Value = serde_json::from_str(&read(FILE)?).context(FILE)?;
    let middle = |row: &Value, field: &str| row[field]["middle"].as_f64().with_context(|| format!("{FILE}: no {field} in {row}"));
    let rows = results["instructions"].as_array().with_context(|| format!("{FILE} has no instructions"))?;
    let mut table = String::from("| over no filter | instructions per request | × equal-work Lua | user CPU, µs |\n|---|--:|--:|--:|\n");
    // Beside a gate there is only what it adds to the others: nothing.
    for row in rows.iter().filter(|row| row["name"] != "no-filter" && !row["title"].to_string().contains("beside")) {
        let over = middle(row, "over")?;
        let latency = results["latency"].as_array().into_iter().flatten().find(|times| times["name"] == row["name"]);
        let cpu = latency.map(|times| middle(times, "user_cpu_over").map(|micros| format!("{micros:.1}"))).transpose()?;
        let title = row["title"].as_str().with_context(|| format!("{FILE}: no title in {row}"))?;
        let around = (row["over"]["high"].as_f64().unwrap_or_default() - row["over"]["low"].as_f64().unwrap_or_default()) / 2000.0;
        let times = row["lua"].as_f64().with_context(|| format!("{FILE}: no lua in {row}"))?;
        let thousands = over / 1000.0;
        table.push_str(&format!("| {title} | {thousands:.1}k ± {around:.1}k | {times:.2} | {} |\n", cpu.unwrap_or_default()));
    }
    let machine = |field: &str| results["machine"][field].to_string().trim_matches('"').to_owned();
    let [processor, cores, kernel, envoy, bytes] = ["processor", "cores", "kernel", "envoy", "module_bytes"].map(machine);
    table.push_str(&format!("\nEnvoy {envoy} with a module of {bytes} bytes, on {processor} with {cores} cores and Linux {kernel}.\n"));
    Ok(table)
}
