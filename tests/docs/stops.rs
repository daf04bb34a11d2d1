//! The README's table of what a stop loses, made from the results of the real kubelet:
//! `LASTSTREAM_BLESS=1 cargo mesh a1_` writes those of case A1 into their page, and `cargo bless`
//! the table.

use super::read;
use kit::{Context as _, Outcome};

const PAGE: &str = "tests/mesh/node/README.md";

/// A proxy, what it loses, and what laststream changes. `{CASE: WHAT}` is a row of the results.
const ROWS: [[&str; 3]; 9] = [
    [
        "gateway of Istio's chart",
        "{A1: a chart gateway}. With `EXIT_ON_ZERO_ACTIVE_CONNECTIONS` {N1: a gateway with \
         EXIT_ON_ZERO and an idle connection}: one idle connection holds it until SIGKILL",
        "{N1: a gateway with an idle connection, no hook}",
    ],
    [
        "Istio's gateway for a `Gateway` resource",
        "{A1: a Gateway of the Gateway API}",
        "{N5: a Gateway of the Gateway API, two annotations, no hook}",
    ],
    [
        "classic sidecar",
        "{A1: a classic sidecar}",
        "{N1: a classic sidecar, no hook, it also waits for the app}",
    ],
    [
        "native sidecar, [Istio's default from 1.27 on](docs/install/sidecar.md)",
        "{N1: a native sidecar, Istio's own hook}. {A1: a native sidecar, 15 s of grace}: only \
         what outlasts the grace period, 15 s there",
        "{N1: a native sidecar, the rendered hook}",
    ],
    [
        "waypoint",
        "not measured",
        "a drain waits for the request, and not for idle tunnels \
         ([W2](tests/mesh/README.md#results), without a kubelet)",
    ],
    [
        "Envoy Gateway",
        "answered; {A1: Envoy Gateway, drainTimeout: 8s}: only what outlasts `drainTimeout`, 8 s \
         there, for which one idle connection holds the pod. Of 17 short requests with pauses \
         1 is cut and 14 are refused ([G2](tests/mesh/README.md#results), without a kubelet). A \
         rolling restart loses none (G3)",
        "answered; 13.4 s. None is cut or refused (G2, G3)",
    ],
    [
        "an Envoy without a mesh",
        "{A1: an Envoy without a mesh}: at SIGTERM",
        "{N3: httpGet on the pod's address with the secret, an Envoy without a mesh}",
    ],
    [
        "streams of minutes or hours: WebSockets, answers of language models",
        "**cut**, as requests are",
        "[waited for, or ended in good time](docs/ai-gateways.md) with `profile: streaming` (N8)",
    ],
    [
        "a Job with a classic sidecar",
        "{A1: a Job with a classic sidecar}. The Job does not end (N4)",
        "it ends with the exit code of its command (N4)",
    ],
];

pub(super) fn table() -> Outcome<String> {
    let page = read(PAGE)?;
    let (_, results) = page.split_once("\n## Results\n").with_context(|| PAGE.to_owned())?;
    let mut table =
        String::from("| your proxy | without laststream | with laststream |\n|---|---|---|\n");
    for row in ROWS {
        let cells: Vec<String> =
            row.into_iter().map(|cell| filled(cell, results)).collect::<Outcome<_>>()?;
        table.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    Ok(table)
}

/// The cell with the results in the place of their names.
fn filled(cell: &str, results: &str) -> Outcome<String> {
    let mut parts = cell.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').with_context(|| cell.to_owned())?;
        let (case, what) = name.split_once(": ").with_context(|| cell.to_owned())?;
        let begin = format!("| {case} | {what} | ");
        let result = results.lines().find_map(|line| line.strip_prefix(&begin));
        let result = result.with_context(|| format!("{PAGE} has no row `{begin}`"))?;
        let words = in_words(result).with_context(|| format!("{begin}{result}"))?;
        text.push_str(&format!("{words} ({case}){rest}"));
    }
    Ok(text)
}

/// The fate of the request, and the time.
fn in_words(result: &str) -> Option<String> {
    if let Some(rest) = result.strip_prefix("200 ") {
        let (_, gone) = rest.split_once("the pod was gone after ")?;
        return Some(format!("answered; the pod is gone after {}", gone.split_once(';')?.0));
    }
    let (_, cut) = result.split_once("; cut ")?;
    Some(format!("**lost** after {}", cut.split_once(" after the deletion")?.0))
}
