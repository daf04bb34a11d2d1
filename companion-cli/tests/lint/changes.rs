//! `lint --change`: each folder of `changes` has a change, whose files say in comments what is to
//! be found in them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use laststream::lint::{Assume, Finding, SourceFile, change, rules};

use crate::output::golden;
use crate::support::{Example, described, folder};

fn source(path: &Path) -> SourceFile {
    let side = path.file_name().unwrap().to_string_lossy().into_owned();
    SourceFile::new(side, std::fs::read(path).unwrap())
}

fn sides(folder: &Path) -> [PathBuf; 2] {
    ["old.yaml", "new.yaml"].map(|side| folder.join(side))
}

fn found(folder: &Path) -> Vec<Finding> {
    let [old, new] = sides(folder).map(|path| vec![source(&path)]);
    change(old, new, Assume::default())
}

fn changes() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder("changes")).unwrap();
    let mut folders: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders
}

#[test]
fn every_rule_of_changes_has_an_example() {
    let names: Vec<_> = changes()
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    let mut expected: Vec<_> =
        rules().map(|rule| rule.code.to_owned()).filter(|code| code.as_str() >= "LS705").collect();
    expected.push("nothing".into());
    assert_eq!(names, expected);
}

#[test]
fn changes_are_found_where_they_say() {
    let mut wrong = String::new();
    let mut texts = String::new();
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
        for finding in findings {
            let _ = writeln!(texts, "{name} {}: {}", finding.file, finding.message);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    golden("changes.txt", &texts);
}

/// From the new one back to the old one, the same parts are found.
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
        assert_eq!(codes(found(&folder)), codes(change(new, old, Assume::default())), "{folder:?}");
    }
}

#[test]
fn no_file_and_the_same_files_are_no_change() {
    for folder in changes() {
        for side in sides(&folder) {
            let same = change(vec![source(&side)], vec![source(&side)], Assume::default());
            assert!(same.is_empty(), "{}", described(&same));
        }
    }
    assert!(change(Vec::new(), Vec::new(), Assume::default()).is_empty());
}

fn codes_of_change(old: &str, new: &str) -> Vec<&'static str> {
    let file = |name: &str, text: &str| vec![SourceFile::new(name, text.as_bytes().to_vec())];
    let findings = change(file("old", old), file("new", new), Assume::default());
    findings.iter().map(|finding| finding.rule.code).collect()
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

/// Aliases that stand for more nodes than there is time for.
#[test]
fn hostile_files_are_compared_in_time() {
    let mut text = String::from(
        "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: a}\nspec:\n\
         \x20 a: &a0 [1, 1]\n",
    );
    for level in 1..40 {
        let _ = writeln!(text, "  b{level}: &a{level} [*a{0}, *a{0}]", level - 1);
    }
    let file = |name: &str| vec![SourceFile::new(name, text.clone().into_bytes())];
    assert!(change(file("old"), file("new"), Assume::default()).len() <= 3);
}
