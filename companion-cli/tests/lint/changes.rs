//! `lint --change`: each folder in a group of rules has a change, whose files name the expected
//! findings in comments.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use laststream_lint::change::Change;
use laststream_lint::{Assume, Finding, LINTER, SourceFile, rules};

use crate::output::golden;
use crate::support::{Example, described, groups};

fn change(old: Vec<SourceFile>, new: Vec<SourceFile>) -> Vec<Finding> {
    Change::read(&LINTER, old, new, Assume::default()).unwrap().findings()
}

fn source(path: &Path) -> SourceFile {
    let side = path.file_name().unwrap().to_string_lossy().into_owned();
    SourceFile::new(side, std::fs::read(path).unwrap())
}

fn sides(folder: &Path) -> [PathBuf; 2] {
    ["old.yaml", "new.yaml"].map(|side| folder.join(side))
}

fn found(folder: &Path) -> Vec<Finding> {
    let [old, new] = sides(folder).map(|path| vec![source(&path)]);
    change(old, new)
}

fn changes() -> Vec<PathBuf> {
    let entries = groups().into_iter().flat_map(|group| group.read_dir().unwrap());
    let folders = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut folders: Vec<_> = folders.collect();
    folders.sort();
    folders
}

#[test]
fn every_rule_of_changes_has_an_example() {
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    let code = |path| name(path).split('.').next().unwrap_or_default().to_owned();
    let mut names: Vec<_> = changes().iter().map(code).collect();
    names.dedup();
    let codes = rules().map(|rule| rule.code.to_owned());
    let mut expected: Vec<_> =
        codes.filter(|code| ("LS705".."LS801").contains(&code.as_str())).collect();
    expected.push("nothing".into());
    assert_eq!(names, expected);
}

#[test]
fn changes_are_found_at_the_expected_lines() {
    let mut wrong = String::new();
    for folder in changes() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let findings = found(&folder);
        let mut expected: Vec<_> = sides(&folder)
            .iter()
            .flat_map(|path| {
                let example = Example::read(path);
                let file = example.name.clone();
                example.expected().into_iter().map(move |(line, code)| (file.clone(), line, code))
            })
            .collect();
        expected.sort();
        assert_eq!(expected.is_empty(), name == "nothing", "{name}");
        let mut seen: Vec<_> = findings
            .iter()
            .map(|finding| (finding.file.clone(), finding.line, finding.rule.code.to_owned()))
            .collect();
        seen.sort();
        if seen != expected {
            let _ = writeln!(wrong, "{name}: expected {expected:?}\n{}", described(&findings));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_golden_messages_are_made_from_the_changes() {
    let mut texts = String::new();
    for folder in changes() {
        let name = folder.file_name().unwrap().to_string_lossy();
        for finding in found(&folder) {
            let _ = writeln!(texts, "{name} {}: {}", finding.file, finding.message);
        }
    }
    golden("changes.txt", &texts);
}

/// The change from new to old has findings of the same rules.
#[test]
fn a_change_back_is_a_change() {
    for folder in changes().into_iter().filter(|folder| !folder.ends_with("nothing")) {
        let [old, new] = sides(&folder).map(|path| vec![source(&path)]);
        let codes = |findings: Vec<Finding>| {
            let mut codes: Vec<_> = findings.iter().map(|finding| finding.rule.code).collect();
            codes.sort_unstable();
            codes.dedup();
            codes
        };
        assert_eq!(codes(found(&folder)), codes(change(new, old)), "{folder:?}");
    }
}

#[test]
fn no_file_and_the_same_files_are_no_change() {
    for folder in changes() {
        for side in sides(&folder) {
            let same = change(vec![source(&side)], vec![source(&side)]);
            assert!(same.is_empty(), "{}", described(&same));
        }
    }
    assert!(change(Vec::new(), Vec::new()).is_empty());
}

fn of_change(old: &str, new: &str) -> Vec<Finding> {
    let file = |name: &str, text: &str| vec![SourceFile::new(name, text.as_bytes().to_vec())];
    change(file("old", old), file("new", new))
}

fn codes_of_change(old: &str, new: &str) -> Vec<&'static str> {
    of_change(old, new).iter().map(|finding| finding.rule.code).collect()
}

/// A file that cannot be read is not an empty change.
#[test]
fn a_file_that_cannot_be_read_is_a_finding() {
    assert_eq!(codes_of_change("kind: A\n", "{"), ["LS001"]);
    assert_eq!(codes_of_change("{", "kind: A\n"), ["LS001"]);
}

#[test]
fn hosts_of_a_service_entry_are_in_filter_chains_if_a_port_is_tls() {
    let entry = |protocol: &str, hosts: &str, export: &str| {
        format!(
            "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: a}}\n\
             spec:\n  hosts: [{hosts}]\n{export}  ports:\n  - {{number: 443, name: p, protocol: \
             {protocol}}}\n"
        )
    };
    for (protocol, hosts, export, is_found) in [
        ("TLS", "b.example", "", true),
        ("https", "b.example", "", true),
        ("HTTP", "b.example", "", false),
        ("TLS", "a.example, b.example", "", false),
        ("HTTP", "a.example", "  exportTo: [.]\n", true),
    ] {
        let old = entry(protocol, "a.example", "");
        let codes = codes_of_change(&old, &entry(protocol, hosts, export));
        assert_eq!(!codes.is_empty(), is_found, "{protocol} {hosts} {export}: {codes:?}");
    }
}

const GATEWAY: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: edge}\nspec:\n  \
    template:\n    metadata: {annotations: {proxy.istio.io/config: 'drainDuration: 95s'}}\n    \
    spec: {containers: []}\n---\n";
const CHART: &str = "podAnnotations: {proxy.istio.io/config: 'drainDuration: 95s'}\n---\n";

/// The shortest drain time of all proxies counts, and the one with which they have started.
#[test]
fn the_time_that_streams_have_is_not_overstated() {
    const DEFAULT: &str = "45s (Istio's default for proxies without `drainDuration`)";
    let mesh = |log: &str, settings: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: istio, namespace: istio-system}}\n\
             data:\n  mesh: |-\n    accessLogFile: {log}\n    defaultConfig: {{{settings}}}\n---\n"
        )
    };
    let policy = |path: &str| {
        format!(
            "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {{name: a}}\n\
             spec: {{rules: [{{to: [{{operation: {{paths: [{path}]}}}}]}}]}}\n"
        )
    };
    let with_policy = |more: &str| ["/a", "/b"].map(|path| more.to_owned() + &policy(path));
    let [short, long] = ["drainDuration: 30s", "drainDuration: 60s"];
    for ([old, new], time) in [
        (with_policy(GATEWAY), DEFAULT),
        (with_policy(CHART), DEFAULT),
        (with_policy(&[GATEWAY, &mesh("a", short)].concat()), "30s (`drainDuration`)"),
        (with_policy(&[GATEWAY, &mesh("a", long)].concat()), "60s (`drainDuration`)"),
        ([mesh("a", short), mesh("b", long)], "30s (`drainDuration`)"),
        ([mesh("a", ""), mesh("b", long)], DEFAULT),
        ([mesh("a", short), mesh("b", "")], "30s (`drainDuration`)"),
    ] {
        let findings = of_change(&old, &new);
        let finding = findings.iter().find(|finding| finding.rule.code < "LS714").unwrap();
        let (_, told) = finding.message.split_once("streams that are older have ").unwrap();
        assert_eq!(told, time, "{old}{new}");
    }
}

/// Aliases that stand for more nodes than any program can compare in time.
#[test]
fn hostile_files_are_compared_in_time() {
    let mut text = String::from(
        "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: a}\nspec:\n\
         \x20 a: &a0 [1, 1]\n",
    );
    for level in 1..40 {
        let _ = writeln!(text, "  b{level}: &a{level} [*a{0}, *a{0}]", level - 1);
    }
    assert!(of_change(&text, &text).len() <= 3);
}
