//! Each rule finds its bad example and nothing in its good one, and the line is right.

use std::collections::BTreeSet;

use laststream_lint::rules;
use laststream_lint::upgrade::Step;

use crate::support::{Example, described, files, folder};

#[test]
fn every_rule_has_a_bad_and_a_good_example_and_no_example_is_without_a_rule() {
    let codes: BTreeSet<String> = rules()
        // Those of changes and clusters have tests of their own.
        .filter(|rule| !("LS705".."LS901").contains(&rule.code))
        .flat_map(|rule| ["bad", "good"].map(|kind| format!("{}.{kind}", rule.code)))
        .collect();
    // CODE.bad.yaml, or CODE.part.bad.yaml for a part of a rule.
    let kind = |name: &str| name.trim_end_matches(".yaml").rsplit('.').next().map(str::to_owned);
    let of = |name: &str| Some(format!("{}.{}", name.split('.').next()?, kind(name)?));
    let there: BTreeSet<String> =
        examples("rules").filter_map(|example| of(&example.name)).collect();
    assert_eq!(codes, there);
}

fn examples(name: &str) -> impl Iterator<Item = Example> {
    files(&folder(name)).into_iter().map(|path| Example::read(&path))
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
    are_found(examples("rules").filter(is_bad).inspect(|example| {
        let own = example.name.split('.').next().expect("a code");
        let is_there = example.expected().iter().any(|(_, code)| code == own);
        assert!(is_there, "{} does not say where {own} is", example.name);
    }));
}

#[test]
fn good_examples_are_good() {
    let good = examples("rules").filter(|example| !is_bad(example)).chain(examples("good"));
    let wrong: String = good.map(|example| described(&example.findings())).collect();
    assert!(wrong.is_empty(), "{wrong}");
}

/// A change is not reported for the step before or after it.
#[test]
fn a_change_is_found_only_by_the_step_to_its_version() {
    let mut compared = 0;
    for example in
        examples("rules").filter(is_bad).filter(|example| example.name.starts_with("LS9"))
    {
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
    assert!(compared > 15, "{compared} steps");
}

/// The rules about the saved header hold for Envoy's own matchers, too.
#[test]
fn native_matchers_need_the_saved_header_too() {
    let Example { name, text } = Example::read(&folder("rules").join("LS355.good.yaml"));
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
