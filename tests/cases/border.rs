//! Envoy calls the module for a request's headers and for the stream's end, and not in between: the
//! module exports nothing else. Not `proxy_on_log` either: Envoy writes the access log of an HTTP/3
//! stream after it has reported the stream's end.

use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use laststream_module::analysis::analyse;
use serde_json::Value;

use crate::lab::{Lab, cases};
use kit::prelude::*;

cases! {
    the_module_exports_only_what_it_needs,
    the_cost_in_the_docs_is_of_this_module,
}

/// The exports that the module must have, and no others.
const EXPORTS: [&str; 11] = [
    "_initialize",
    "malloc",
    "memory",
    "proxy_abi_version_0_2_1",
    "proxy_on_configure",
    "proxy_on_context_create",
    "proxy_on_delete",
    "proxy_on_http_call_response",
    "proxy_on_queue_ready",
    "proxy_on_request_headers",
    "proxy_on_tick",
];

/// The only import from outside the ABI, because the ABI has no monotonic clock.
const CLOCK: &str = "wasi_snapshot_preview1.clock_time_get";

/// The size limits of the module, in bytes, plain and compressed with `gzip -9`: a ratchet, a
/// little above the present size.
const BUDGET: usize = 320_000;
const GZIP_BUDGET: usize = 136_000;

async fn the_module_exports_only_what_it_needs(lab: &Lab) -> Outcome {
    let code = std::fs::read(&lab.module).context("the module")?;
    ensure!(code.len() < BUDGET, "the module has {} bytes", code.len());
    let compressed = gzip(&code)?.len();
    ensure!(compressed < GZIP_BUDGET, "the module has {compressed} bytes, compressed");
    let module = analyse(&code).map_err(Error::msg)?;
    for name in &module.imports {
        ensure!(name.starts_with("env.proxy_") || name == CLOCK, "the module wants {name}");
    }
    let mut exports = module.exports;
    exports.sort();
    ensure_eq!(exports, EXPORTS.map(String::from), "exports");
    Ok(())
}

fn gzip(code: &[u8]) -> Outcome<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(code).context("compressing the module")?;
    encoder.finish().context("compressing the module")
}

/// By the size, within a hundredth: a larger change needs a new `cargo bench`.
async fn the_cost_in_the_docs_is_of_this_module(lab: &Lab) -> Outcome {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/cost/results.json");
    let results: Value = serde_json::from_slice(&std::fs::read(file)?)?;
    let measured = results["machine"]["module_bytes"].as_u64().context("module_bytes")?;
    let size = std::fs::metadata(&lab.module)?.len();
    ensure!(
        measured.abs_diff(size) * 100 <= size,
        "docs/cost is of a module of {measured} bytes, and this one has {size}: run `cargo bench`"
    );
    Ok(())
}
