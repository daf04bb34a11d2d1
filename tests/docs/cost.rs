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
    let mut table = String::from(
        "| | instructions per request | × Lua for the scheme | CPU of 1,000 requests | p50 | p99 \
         |\n|---|--:|--:|--:|--:|--:|\n",
    );
    for (name, what) in [
        ("counting", "counting"),
        ("alb-changed-wasm", "counting, and restoring the scheme from the headers of `aws_alb`"),
        ("alb-changed-composite", "the same from Istio 1.31 on, by Envoy's own matchers"),
        ("lua-alb", "the same scheme by Lua, and no counting"),
    ] {
        let (work, time) = (row(&results, "instructions", name)?, row(&results, "latency", name)?);
        let thousands = middle(work, "over")? / 1000.0;
        let lua = work["lua"].as_f64().with_context(|| format!("{FILE}: no lua in {work}"))?;
        // Microseconds of a request are milliseconds of a thousand.
        let cpu = with_spread(time, "user_cpu_over")?;
        table.push_str(&format!(
            "| {what} | {thousands:.1}k | {lua:.2} | {cpu} ms | × {} | × {} |\n",
            with_spread(time, "median")?,
            with_spread(time, "p99")?
        ));
    }
    let memory = row(&results, "memory", "counting")?;
    let megabytes = |field: &str| middle(memory, field).map(|kilobytes| kilobytes / 1000.0);
    let (first, further) = (megabytes("first")?, megabytes("worker")?);
    let envoy =
        results["machine"]["envoy"].as_str().with_context(|| format!("{FILE}: no envoy"))?;
    let bytes = results["machine"]["module_bytes"].as_u64();
    let kilobytes = bytes.with_context(|| format!("{FILE}: no module_bytes"))? / 1000;
    table.push_str(&format!(
        "\nInstructions and CPU are over no filter, latencies are multiples of no filter's. \
         Memory: {first:.1} MB for the first worker, {further:.1} MB for each\nfurther one. \
         Measured with Envoy {envoy} and a module of {kilobytes} kB.\n"
    ));
    Ok(table)
}

/// The middle value, and half of the interquartile range.
fn with_spread(row: &Value, field: &str) -> Outcome<String> {
    let at = |place: &str| {
        row[field][place].as_f64().with_context(|| format!("{FILE}: no {field} in {row}"))
    };
    Ok(format!("{:.2} ± {:.2}", at("middle")?, (at("high")? - at("low")?) / 2.0))
}

fn row<'a>(results: &'a Value, part: &str, name: &str) -> Outcome<&'a Value> {
    let mut rows = results[part].as_array().into_iter().flatten();
    rows.find(|row| row["name"] == name).with_context(|| format!("{FILE}: no {name} in {part}"))
}

fn middle(row: &Value, field: &str) -> Outcome<f64> {
    row[field]["middle"].as_f64().with_context(|| format!("{FILE}: no {field} in {row}"))
}
