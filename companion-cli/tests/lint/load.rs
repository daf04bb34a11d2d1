//! Large inputs: time and memory grow with the input, not with its square. Bounds are wide; a
//! failure shows the time that was measured.

use std::time::{Duration, Instant};

use laststream_lint::{Assume, SourceFile, lint};

use crate::support::{Example, described, folder};

/// A hundred times the usual time.
const SLOW: Duration = Duration::from_secs(60);

fn timed(what: &str, sources: Vec<SourceFile>) -> usize {
    let begun = Instant::now();
    let findings = lint(sources, Assume::default());
    let took = begun.elapsed();
    assert!(took < SLOW, "{what} took {took:?}");
    findings.len()
}

/// 500 gateways in 1,000 documents, each gateway alone in its namespace or all in one.
#[test]
fn a_thousand_documents_are_checked_in_time() {
    let example = Example::read(&folder("good").join("one-envoyfilter.yaml"));
    for apart in [true, false] {
        let sources = (0..500).map(|number| {
            let space = if apart { format!("gateway-{number}") } else { "istio-ingress".into() };
            let text =
                example.text.replace("namespace: istio-ingress", &format!("namespace: {space}"));
            let text = text
                .replace("istio: ingressgateway", &format!("istio: ingressgateway-{number}"))
                .replace("name: laststream\n", &format!("name: laststream-{number}\n"));
            SourceFile::new(format!("{number}.yaml"), text.into_bytes())
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
                if letter == 0 {
                    "x".into()
                } else {
                    vec![format!("*{}", char::from(b'a' + letter - 1)); 9].join(",")
                }
            )
        })
        .collect();
    let filters =
        "- {applyTo: EXTENSION_CONFIG, patch: {operation: ADD, value: {name: a}}}\n".repeat(20_000);
    let filters = format!(
        "apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\n\
         metadata: {{name: a, namespace: istio-system}}\nspec:\n  configPatches:\n{}",
        filters.replace("- {", "  - {")
    );
    for (what, text) in [
        ("aliases of aliases", nested),
        ("one name many times", filters),
        ("many values", "- 1\n".repeat(200_000)),
        ("one long line", format!("a: [{}]\n", "b,".repeat(40_000))),
        ("a large scalar", format!("a: |\n{}", "  while netstat -x envoy\n".repeat(40_000))),
        ("many keys", (0..40_000).map(|number| format!("k{number}: {number}\n")).collect()),
        ("the same key many times", "k: 1\n".repeat(40_000)),
        ("comments", "# laststream-lint: ignore=LS999\n".repeat(40_000)),
        ("documents", "---\na: 1\n".repeat(40_000)),
        ("errors", "---\n\ta\n".repeat(40_000)),
        ("colons", ": ".repeat(40_000)),
        ("quotes", "'".repeat(100_001)),
        ("anchors", (0..40_000).map(|number| format!("- &a{number} *a{number}\n")).collect()),
        ("question marks", "? ".repeat(40_000)),
        ("merges of merges", merges_of_merges()),
        (
            "numbers for labels",
            object(
                &(0..40_000).map(|number| format!("    l{number}: {number}\n")).collect::<String>(),
            ),
        ),
        (
            "types in one map",
            (0..20_000)
                .map(|number| {
                    format!(
                        "k{number}: {{'@type': x/HttpConnectionManager, mutations: [], \
                         object_key: a}}\n"
                    )
                })
                .collect(),
        ),
        ("a long chain of aliases", chain()),
        ("merges", format!("a: &a {{x: 1}}\nb:\n{}", "  <<: *a\n".repeat(50_000))),
    ] {
        timed(what, vec![SourceFile::new("hostile.yaml", text.into_bytes())]);
    }
}

/// Each level merges the one before two hundred times.
fn merges_of_merges() -> String {
    let level = |number: u32| {
        format!(
            "l{number}: &l{number} {{<<: [{}], x: 1}}\n",
            vec![format!("*l{}", number - 1); 200].join(", ")
        )
    };
    format!("l0: &l0 {{x: 1}}\n{}kind: Job\n<<: *l9\n", (1..10).map(level).collect::<String>())
}

fn object(labels: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels:\n\
         {labels}spec: {{containers: []}}\n"
    )
}

/// As a configuration, this would be ten thousand levels deep.
fn chain() -> String {
    let links: String =
        (1..10_000).map(|number| format!("- &a{number} {{x: *a{}}}\n", number - 1)).collect();
    let links = format!("- &a0 {{x: 1}}\n{links}").replace("- ", "  - ");
    format!(
        "apiVersion: extensions.istio.io/v1alpha1\nkind: WasmPlugin\nmetadata: {{name: a}}\n\
         links:\n{links}spec:\n  url: oci://laststream\n  pluginConfig: *a9999\n"
    )
}
