//! How `lint` reads its inputs: encodings, aliases, embedded texts, comments that ignore rules.

use laststream_lint::{Assume, Finding, LARGEST_FILE, SourceFile, lint, output};

use crate::support::described;

fn of(text: impl Into<Vec<u8>>) -> Vec<Finding> {
    lint(vec![SourceFile::new("a.yaml", text.into())], Assume::default()).unwrap()
}

fn places(findings: &[Finding]) -> Vec<(&str, u32, u32)> {
    findings.iter().map(|finding| (finding.rule.code, finding.line, finding.column)).collect()
}

/// A Job that shares its process ids: one finding, wherever it stands.
const JOB: &str = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n\
                   spec:\n  template:\n    spec:\n      shareProcessNamespace: true\n";

#[test]
fn unreadable_input_is_a_finding_with_the_reason() {
    for (bytes, line, says) in [
        (b"a: 1\nb: \xff\n".to_vec(), 2, "not UTF-8"),
        (b"\xff\xfea\0:\0".to_vec(), 1, "UTF-16"),
        (vec![b' '; LARGEST_FILE as usize + 1], 1, "larger than 16 MiB"),
        (b"a: \"x\n".to_vec(), 1, "quote"),
        (b"a:\n\tb: 1\n".to_vec(), 2, "tab"),
        (b"a: *nobody\n".to_vec(), 1, "anchor"),
        (b"a: &a {b: *a}\n".to_vec(), 1, "within what it stands for"),
        (b"{{- if .Values.on }}\na: 1\n{{- end }}\n".to_vec(), 1, "render it first"),
        ("[".repeat(100_000).into_bytes(), 1, ""),
        ("- ".repeat(100_000).into_bytes(), 1, ""),
        (
            (0..200)
                .map(|depth| format!("{}a:\n", " ".repeat(depth)))
                .collect::<String>()
                .into_bytes(),
            129,
            "deeper than 128",
        ),
        (b"a: \0\n".to_vec(), 1, ""),
        (b"a: [{address: ::1}]\n".to_vec(), 1, "quotes"),
        (b"a: 1\n\t# b\nc: 2\n".to_vec(), 2, "tab"),
        (b"kind: Sidecar\nspec: {}\nhosts:\n- #@ data.values.host\n".to_vec(), 4, "template"),
        // A template is judged no further: this one would lack its `spec`.
        (
            b"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {{ .x }}\n".to_vec(),
            4,
            "template",
        ),
    ] {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(30)]).into_owned();
        let findings = of(bytes);
        let said = described(&findings);
        assert_eq!(findings.len(), 1, "{shown}: {said}");
        assert_eq!((findings[0].rule.code, findings[0].line), ("LS001", line), "{shown}: {said}");
        assert!(findings[0].message.contains(says), "{shown}: {said}");
    }
}

#[test]
fn documents_around_a_broken_one_are_looked_at() {
    let findings = of(format!("{JOB}---\na: [1\n---\n{JOB}"));
    assert_eq!(
        places(&findings).iter().map(|(code, line, _)| (*code, *line)).collect::<Vec<_>>(),
        [("LS602", 7), ("LS001", 9), ("LS602", 17)]
    );
}

#[test]
fn every_spelling_of_a_manifest_has_the_same_finding() {
    let json = concat!(
        r#"{"apiVersion": "batch/v1", "kind": "Job", "#,
        r#""spec": {"template": {"spec": {"shareProcessNamespace": true}}}}"#,
    );
    let minified: String = json.split(' ').collect();
    let list =
        format!("apiVersion: v1\nkind: List\nitems:\n- {}", JOB.trim_end().replace('\n', "\n  "));
    let nested = format!(
        "apiVersion: v1\nkind: List\nitems:\n- kind: List\n  items:\n  - {}",
        JOB.trim_end().replace('\n', "\n    ")
    );
    let merged = "d: &d {shareProcessNamespace: true}\napiVersion: batch/v1\n\
                  kind: Job\nspec:\n  template:\n    spec:\n      <<: *d\n";
    let aliased = "d: &d {spec: {shareProcessNamespace: true}}\napiVersion: batch/v1\n\
                   kind: Job\nspec:\n  template: *d\n";
    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n  job.yaml: |\n{}",
        indented(JOB, 4)
    );
    // The readers of Kubernetes do not want the second line deeper than the key.
    let folded = JOB.replace("{name: a}", "\n  name: 'a\n  b'");
    for (text, line, column) in [
        (JOB.to_owned(), 7, 30),
        (folded, 9, 30),
        (format!("\u{feff}{JOB}"), 7, 30),
        (JOB.replace('\n', "\r\n"), 7, 30),
        (format!("---\n\n{JOB}...\n"), 9, 30),
        (json.to_owned(), 1, 99),
        (minified, 1, 91),
        (list, 10, 32),
        (nested, 12, 34),
        (merged.to_owned(), 1, 31),
        (aliased.to_owned(), 1, 38),
        (map, 12, 34),
    ] {
        assert_eq!(places(&of(text.clone())), [("LS602", line, column)], "{text}");
    }
}

fn indented(text: &str, by: usize) -> String {
    text.lines().map(|line| format!("{}{line}\n", " ".repeat(by))).collect()
}

/// As go-yaml reads it, in which the API server's readers are written.
#[test]
fn an_address_of_ipv6_in_brackets_is_a_text() {
    let entry = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: a}\n\
                 spec:\n  hosts: [a.example.com]\n  addresses: [1.2.3.4, 2001:db8::]\n  \
                 ports: [{number: 80, name: http, protocol: HTTP}]\n  resolution: STATIC\n";
    assert_eq!(places(&of(entry)), []);
    assert_eq!(places(&of(entry.replace("2001:db8::", "b:"))), []);
    assert_eq!(places(&of(entry.replace("2001:db8::", "b: "))), [("LS008", 6, 24)]);
}

#[test]
fn a_patch_of_a_kustomization_is_no_whole_object() {
    let patch = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\n\
                 metadata: {name: a}\nspec: {addresses: []}\n";
    let kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n\
                         patches: [{path: ../b/./patch.yaml}]\n";
    let both = |kustomization: &str| {
        let sources = vec![
            SourceFile::new("mesh/a/kustomization.yaml", kustomization.into()),
            SourceFile::new("mesh/b/patch.yaml", patch.into()),
        ];
        lint(sources, Assume::default()).unwrap()
    };
    assert_eq!(places(&both(kustomization)), []);
    assert_ne!(places(&both("")), []);
    assert_eq!(places(&of(format!("$patch: delete\n{patch}"))), []);
}

/// One error before anything is judged, because what is left would be judged wrongly.
#[test]
fn too_many_values_are_refused_as_a_whole() {
    let half = || SourceFile::new("a.yaml", "- a\n".repeat(1_100_000).into_bytes());
    let error = lint(vec![half(), half()], Assume::default()).unwrap_err().to_string();
    assert!(error.contains("name fewer"), "{error}");
}

#[test]
fn comments_can_ignore_rules() {
    let at_line = JOB.replace("true", "true # laststream-lint: ignore=LS602");
    let above = JOB.replace(
        "      share",
        "      # laststream-lint: ignore=LS102,LS602 it is a debugger\n\n      # yes\n      share",
    );
    let whole = format!("# laststream-lint: ignore-file=LS602\n{JOB}---\n{JOB}");
    let in_a_text = |comment: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n\
             {comment} \x20job.yaml: |\n{}",
            indented(JOB, 4)
        )
    };
    let above_a_text = in_a_text("  # laststream-lint: ignore=LS602\n");
    for text in [at_line, above, whole, above_a_text] {
        assert_eq!(places(&of(text.clone())), [], "{text}");
    }
    let elsewhere = JOB.replace("metadata:", "# laststream-lint: ignore=LS602\nmetadata:");
    let other = JOB.replace("true", "true # laststream-lint: ignore=LS601");
    let far = JOB.replace("kind: Job", "kind: Job # laststream-lint: ignore=LS602");
    for text in [elsewhere, other, far, in_a_text("")] {
        assert_eq!(of(text.clone()).len(), 1, "{text}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  \
                - env:\n    - name: DB_PASSWORD\n      value: 31337\n    \
                - {name: PORT, value: 8080}\n";
    let findings = of(text);
    let json = output::json(&findings, output::Checked::Files(1), None);
    let shown = output::text(&findings) + &json;
    assert_eq!(findings.len(), 2, "{}", described(&findings));
    assert!(!shown.contains("31337") && shown.contains("8080"), "{shown}");
}

#[test]
fn files_are_looked_at_together() {
    let filter = |name: &str, more: &str| {
        format!(
            "apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\n\
             metadata: {{name: {name}{more}}}\n\
             spec:\n  workloadSelector: {{labels: {{a: b}}}}\n  configPatches:\n  \
               - applyTo: LISTENER\n    patch: {{operation: ADD, value: {{name: gate}}}}\n"
        )
    };
    let both = |one: String, two: String| {
        let sources = vec![
            SourceFile::new("one.yaml", one.into_bytes()),
            SourceFile::new("two.yaml", two.into_bytes()),
        ];
        lint(sources, Assume::default())
            .unwrap()
            .iter()
            .map(|finding| format!("{}:{} {}", finding.file, finding.line, finding.message))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        both(filter("a", ""), filter("b", "")),
        ["two.yaml:8 `gate` is also added by `a` (one.yaml:8)"]
    );
    // The same resource twice is one resource; other namespaces have other proxies, but for the
    // root's.
    assert!(both(filter("a", ""), filter("a", "")).is_empty());
    assert!(both(filter("a", ", namespace: one"), filter("a", ", namespace: two")).is_empty());
    assert_eq!(
        both(filter("a", ", namespace: one"), filter("a", ", namespace: istio-system")).len(),
        1
    );
}
