//! Large and hostile inputs: none makes the linter hang. Its crate tests that the work grows with
//! the files.

use laststream_lint::{Assume, SourceFile, lint};

use crate::support::or_hangs;

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
    let inputs = [
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
    ];
    or_hangs(move |begins| {
        for (what, text) in inputs {
            begins(what.to_owned());
            let _findings =
                lint(vec![SourceFile::new("hostile.yaml", text.into_bytes())], Assume::default());
        }
    });
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
