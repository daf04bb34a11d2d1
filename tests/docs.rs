//! What the documents say is what the code does: tables are made from the types, examples are run.

mod cost;
mod numbers;
mod openapi;
mod reference;

use std::fs;
use std::path::{Path, PathBuf};

use laststream_filter::config;
use libtest_mimic::Trial;

use crate::cases;
use crate::support::failure::{Context as _, Outcome, completion, ensure, ensure_eq, fail};

/// Set to write the tables anew instead of comparing them.
const BLESS: &str = "LASTSTREAM_BLESS";

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, check: fn() -> Outcome| Trial::ignorable_test(format!("docs::{name}"), move || completion(check()));
    vec![
        trial("tables_are_made_from_the_code", tables_are_made_from_the_code),
        trial("openapi_is_made_from_the_code", openapi::is_made_from_the_code),
        trial("openapi_is_whole", openapi::is_whole),
        trial("schema_and_module_take_the_same_numbers", numbers::schema_and_module_take_the_same),
        trial("configurations_are_taken_by_the_module", configurations_are_taken_by_the_module),
        trial("named_cases_are_there", named_cases_are_there),
        trial("the_threat_model_names_tests_that_are_there", the_threat_model_names_tests_that_are_there),
        trial("links_lead_somewhere", links_lead_somewhere),
    ]
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> Outcome<String> {
    fs::read_to_string(root().join(file)).with_context(|| file.to_owned())
}

/// At once: others read it at the same time.
fn write(file: &str, text: &str) -> Outcome {
    let fresh = root().join(format!("{file}.new"));
    fs::write(&fresh, text).with_context(|| file.to_owned())?;
    fs::rename(fresh, root().join(file)).with_context(|| file.to_owned())
}

/// Between `<!-- table: NAME -->` and `<!-- end -->` stands what the code says.
fn tables_are_made_from_the_code() -> Outcome {
    let mut text = read("README.md")?;
    for (name, table) in reference::tables().into_iter().chain([("cost", cost::table()?)]) {
        let opening = format!("<!-- table: {name} -->\n");
        let start = text.find(&opening).with_context(|| format!("README.md has no {opening}"))? + opening.len();
        let length = text[start..].find("<!-- end -->").with_context(|| format!("the table {name} has no end"))?;
        if text[start..start + length] != table {
            if std::env::var_os(BLESS).is_none() {
                fail!("README.md: the table {name} is not what the code says; {BLESS}=1 writes it anew. It should be\n{table}");
            }
            text.replace_range(start..start + length, &table);
            write("README.md", &text)?;
        }
    }
    Ok(())
}

/// Every block of JSON in the README is a configuration.
fn configurations_are_taken_by_the_module() -> Outcome {
    let text = read("README.md")?;
    let mut blocks = 0;
    for block in text.split("```json\n").skip(1) {
        let json = block.split("```").next().unwrap_or_default();
        config::parse(json.as_bytes()).with_context(|| json.to_owned())?;
        blocks += 1;
    }
    if blocks == 0 {
        fail!("README.md shows no configuration");
    }
    Ok(())
}

/// Each row of the gate's table that says yes names cases, and those exist.
fn named_cases_are_there() -> Outcome {
    let text = read("tests/cases/gate/README.md")?;
    let known: Vec<&str> = cases::all().into_iter().map(|case| case.name).collect();
    let rows: Vec<Vec<&str>> = text.lines().filter(|line| line.starts_with("| ")).skip(1).map(|line| line.split(" | ").collect()).collect();
    for (number, row) in (1..).zip(&rows) {
        let [first, .., proof] = row.as_slice() else { fail!("row {number} has no columns") };
        ensure_eq!(*first, format!("| {number}"), "the number of a row");
        let named: Vec<&str> = proof.split('`').skip(1).step_by(2).collect();
        ensure!(!named.is_empty(), "row {number} names no case");
        for name in named {
            ensure!(known.iter().any(|known| known.ends_with(&format!("gate::{name}"))), "row {number} names {name}, which is not there");
        }
    }
    ensure_eq!(rows.len(), 39, "rows");
    Ok(())
}

/// The last column of each table about clients: cases of the gate, or tests of the command line.
fn the_threat_model_names_tests_that_are_there() -> Outcome {
    let text = read("docs/threat-model.md")?;
    let cases: Vec<&str> = cases::all().into_iter().map(|case| case.name).collect();
    let rows = text.lines().filter(|line| line.starts_with("| ")).filter_map(|line| line.trim_end_matches(" |").rsplit_once(" | "));
    let named: Vec<&str> = rows.flat_map(|(_, proof)| proof.split('`').skip(1).step_by(2)).filter(|name| name.contains("::")).collect();
    ensure!(named.len() > 15, "docs/threat-model.md names {named:?} only");
    for name in named {
        let is_there = match name.split("::").collect::<Vec<_>>().as_slice() {
            [folder, file, test] => read(&format!("companion-cli/tests/{folder}/{file}.rs"))?.contains(&format!("fn {test}()")),
            _ => cases.iter().any(|case| case.ends_with(&format!("gate::{name}"))),
        };
        ensure!(is_there, "docs/threat-model.md names `{name}`, which is not there");
    }
    Ok(())
}

/// Relative links of all documents at the top.
fn links_lead_somewhere() -> Outcome {
    for document in ["README.md", "RATIONALE.md", "CHANGELOG.md", "tests/cases/gate/README.md"] {
        for link in read(document)?.split("](").skip(1) {
            let target = link.split(')').next().unwrap_or_default().split('#').next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !Path::new(&root()).join(target).exists() {
                fail!("{document} links to {target}, which is not there");
            }
        }
    }
    Ok(())
}
