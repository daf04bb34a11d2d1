//! Each rule finds its bad example and nothing in its good one, and the line is right.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use laststream_lint::rules;
use laststream_lint::upgrade::Step;

use crate::output::golden;
use crate::support::{Example, described, files, folder, groups, of_rules};

/// The texts of a group, a section for each rule, without the marks of headings.
fn sections(group: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(group.join("rules.md")).expect("the texts of a group");
    let text = format!("\n{}", text.replace("{program}", "laststream"));
    text.split("\n## ").skip(1).map(|section| section.trim_end().to_owned()).collect()
}

#[test]
fn every_rule_has_a_bad_and_a_good_example_beside_its_text() {
    for group in groups() {
        let sections = sections(&group);
        let codes = sections.iter().filter_map(|section| section.lines().next());
        // Those of changes and clusters have tests of their own.
        let codes = codes.filter(|code| !("LS705".."LS901").contains(code));
        let codes = codes.flat_map(|code| ["bad", "good"].map(|kind| format!("{code}.{kind}")));
        // CODE.bad.yaml, or CODE.part.bad.yaml for a part of a rule.
        let of = |path: &PathBuf| {
            let name = path.file_name()?.to_str()?.strip_suffix(".yaml")?;
            Some(format!("{}.{}", name.split('.').next()?, name.rsplit('.').next()?))
        };
        let there: BTreeSet<String> = files(&group).iter().filter_map(of).collect();
        assert_eq!(codes.collect::<BTreeSet<_>>(), there, "{}", group.display());
    }
}

#[test]
fn lint_md_is_made_from_the_texts_of_all_groups() {
    let mut sections: Vec<_> = groups().iter().flat_map(|group| sections(group)).collect();
    sections.sort_unstable();
    let codes = sections.iter().filter_map(|section| section.lines().next());
    assert!(rules().map(|rule| rule.code).eq(codes));
    let lint_md = Path::new(env!("CARGO_MANIFEST_DIR")).join("LINT.md");
    let lint_md = std::fs::read_to_string(lint_md).expect("LINT.md");
    let (head, _) = lint_md.split_once("\n## ").expect("sections");
    golden("../../../LINT.md", &format!("{head}\n## {}\n", sections.join("\n\n## ")));
}

fn examples(name: &str) -> impl Iterator<Item = Example> {
    files(&folder(name)).into_iter().map(|path| Example::read(&path))
}

fn bad() -> impl Iterator<Item = Example> {
    of_rules().into_iter().filter(is_bad)
}

fn is_bad(example: &Example) -> bool {
    example.name.contains(".bad.")
}

/// Asserts that each example has the findings that it names, and names at least one.
fn are_found(examples: impl Iterator<Item = Example>) {
    let mut wrong = String::new();
    for example in examples {
        let (name, expected) = (&example.name, example.expected());
        assert!(!expected.is_empty(), "{name} expects nothing");
        if example.found() != expected {
            let found = described(&example.findings());
            wrong += &format!("{name}: expected {expected:?}, found\n{found}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn bad_examples_are_found_at_the_expected_lines() {
    are_found(bad().inspect(|example| {
        let own = example.name.split('.').next().expect("a code");
        let is_there = example.expected().iter().any(|(_, code)| code == own);
        assert!(is_there, "{} does not say where {own} is", example.name);
    }));
}

#[test]
fn good_examples_are_good() {
    let good = of_rules().into_iter().filter(|example| !is_bad(example)).chain(examples("good"));
    let wrong: String = good.map(|example| described(&example.findings())).collect();
    assert!(wrong.is_empty(), "{wrong}");
}

/// A change is not reported for the step before or after it.
#[test]
fn a_change_is_found_only_by_the_step_to_its_version() {
    let mut compared = 0;
    for example in bad().filter(|example| example.name.starts_with("LS9")) {
        let [step] = example.steps().collect::<Vec<_>>()[..] else { panic!("{}", example.name) };
        let minor = step.to.1;
        assert_eq!(step.from.1, minor - 1, "{}: a step of one version", example.name);
        let form = |from: u32| format!("# upgrade: {}=1.{from}:1.{}", step.program, from + 1);
        for other in [minor - 2, minor].map(form) {
            let text = example.text.replacen(&form(minor - 1), &other, 1);
            assert_ne!(text, example.text);
            let beside = Example { name: example.name.clone(), text };
            if other.trim_start_matches("# upgrade: ").parse::<Step>().is_ok() {
                assert!(beside.found().is_empty(), "{}", described(&beside.findings()));
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 9, "steps");
}

/// The rules about the saved header hold for Envoy's own matchers, too.
#[test]
fn native_matchers_need_the_saved_header_too() {
    let Example { name, text } = Example::read(&folder("LS355.good.yaml"));
    for (from, to, code) in [
        ("header: {key: x-laststream-forwarded-proto,", "header: {key: x-other,", "LS351"),
        ("- remove: x-laststream-forwarded-proto", "- remove: x-other", "LS351"),
    ] {
        assert!(text.contains(from), "{from}");
        let found = Example { name: name.clone(), text: text.replace(from, to) }.found();
        assert!(matches!(found.as_slice(), [(_, only)] if only == code), "{code}: {found:?}");
    }
}

#[test]
fn write_ups_are_answered_with_the_right_advice() {
    are_found(examples("write-ups"));
}
