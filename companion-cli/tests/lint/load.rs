//! Much input: time and memory grow with it, not with its square. Bounds are wide; what is measured is printed.

use std::time::{Duration, Instant};

use laststream::lint::{Assume, Source, lint};

use crate::support::{Example, described, folder};

/// A hundred times what it takes.
const SLOW: Duration = Duration::from_secs(60);

fn timed(what: &str, sources: Vec<Source>) -> usize {
    let begun = Instant::now();
    let findings = lint(sources, Assume::default());
    let took = begun.elapsed();
    assert!(took < SLOW, "{what} took {took:?}");
    findings.len()
}

/// Everything that a mesh may have, many times over: 500 gateways, 1,000 documents, each alone in its namespace or all in one.
#[test]
fn a_thousand_documents() {
    let example = Example::read(&folder("good").join("one-envoyfilter.yaml"));
    for apart in [true, false] {
        let sources = (0..500).map(|number| {
            let space = if apart { format!("gateway-{number}") } else { "istio-ingress".into() };
            let text = example.text.replace("namespace: istio-ingress", &format!("namespace: {space}"));
            let text = text
                .replace("istio: ingressgateway", &format!("istio: ingressgateway-{number}"))
                .replace("name: laststream\n", &format!("name: laststream-{number}\n"));
            Source::new(format!("{number}.yaml"), text.into_bytes())
        });
        let sources: Vec<_> = sources.collect();
        let count = timed("1,000 documents", sources);
        assert_eq!(count, 0, "{}", described(&example.findings()));
    }
}

#[test]
fn hostile_input_takes_neither_time_nor_memory() {
    let nested: String = (0..26_u8)
        .map(|letter| {
            format!(
                "{0}: &{0} [{1}]\n",
                char::from(b'a' + letter),
                if letter == 0 { "x".into() } else { vec![format!("*{}", char::from(b'a' + letter - 1)); 9].join(",") }
            )
        })
        .collect();
    let filters = "- {applyTo: EXTENSION_CONFIG, patch: {operation: ADD, value: {name: a}}}\n".repeat(20_000);
    let filters = format!(
        "apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nmetadata: {{name: a, namespace: istio-system}}\nspec:\n  configPatches:\n{}",
        filters.replace("- {", "  - {")
    );
    for (what, text) in [
        ("aliases of aliases", nested),
        ("one name many times", filters),
        ("a million values", "- 1\n".repeat(1_000_000)),
        ("one long line", format!("a: [{}]\n", "b,".repeat(500_000))),
        ("a large scalar", format!("a: |\n{}", "  while netstat -x envoy\n".repeat(100_000))),
        ("many keys", (0..200_000).map(|number| format!("k{number}: {number}\n")).collect()),
        ("the same key many times", "k: 1\n".repeat(100_000)),
        ("comments", "# laststream-lint: ignore=LS999\n".repeat(100_000)),
        ("documents", "---\na: 1\n".repeat(200_000)),
        ("errors", "---\n\ta\n".repeat(100_000)),
        ("colons", ": ".repeat(300_000)),
        ("quotes", "'".repeat(500_001)),
        ("anchors", (0..100_000).map(|number| format!("- &a{number} *a{number}\n")).collect()),
        ("question marks", "? ".repeat(300_000)),
        ("merges", format!("a: &a {{x: 1}}\nb:\n{}", "  <<: *a\n".repeat(50_000))),
    ] {
        timed(what, vec![Source::new("hostile.yaml", text.into_bytes())]);
    }
}
