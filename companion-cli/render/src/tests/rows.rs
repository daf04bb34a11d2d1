//! Rows: a policy, and what is rendered from it.

use clap::ValueEnum as _;
use serde_json::{Map, Value, json};

use super::{DIGEST, policy};
use crate::{File, Kind, next_steps, render};

#[test]
fn each_row_is_rendered_as_it_says() {
    let rows = include_str!("rendered.yaml").split("--- # ").skip(1);
    let failures: Vec<String> = rows.flat_map(failures_of).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn failures_of(row: &str) -> Vec<String> {
    let (head, text) = row.split_once('\n').expect("a policy below its kind");
    let kind = Kind::from_str(head.split(':').next().expect("a kind"), false).expect(head);
    let (json, words) = outcome(kind, text.lines().last().expect("a policy"));
    let expectations: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("# ")).collect();
    assert!(!expectations.is_empty(), "{row}");
    let failure = |expectation: &str| match expectation.split_once(" = ") {
        Some((pointer, value)) => {
            let expected: Value = serde_json::from_str(value).expect(expectation);
            let actual = json.pointer(pointer).unwrap_or(&Value::Null);
            (*actual != expected).then(|| format!("{row}{expectation}, but it is {actual}\n"))
        }
        None => {
            let absent = expectation.strip_prefix("! ");
            let is_met = absent.is_some_and(|absent| !words.contains(absent))
                || absent.is_none() && words.contains(expectation);
            (!is_met).then(|| format!("{row}{expectation}, but the text is\n{words}\n"))
        }
    };
    expectations.into_iter().filter_map(failure).collect()
}

/// The rendered documents by their numbers, the names of the files and the next steps, or the
/// error; and the words of all texts, in comments without the breaks of lines.
fn outcome(kind: Kind, text: &str) -> (Value, String) {
    let policy = policy(text);
    let rendered = match render(kind, &policy, &|_, _| Ok(DIGEST.into())) {
        Ok(rendered) => rendered,
        Err(refused) => return (json!({ "refused": refused.to_string() }), refused.to_string()),
    };
    let names: Vec<&str> = rendered.files.iter().map(|file| file.name.as_str()).collect();
    let steps = next_steps(&policy, &rendered, "out");
    let mut json =
        Map::from_iter([("files".to_owned(), json!(names)), ("next".to_owned(), json!(steps))]);
    let is_yaml = |file: &&File| file.name.ends_with(".yaml");
    let documents = rendered.files.iter().filter(is_yaml).flat_map(|file| {
        let documents: Vec<Value> = serde_saphyr::from_multiple(&file.text).expect("YAML");
        documents
    });
    json.extend(documents.enumerate().map(|(index, document)| (index.to_string(), document)));
    let texts = rendered.files.iter().map(|file| &file.text).chain(&rendered.warnings);
    let words = texts.flat_map(|text| text.split_whitespace()).filter(|word| *word != "#");
    (json.into(), words.collect::<Vec<_>>().join(" "))
}
