//! The documents agree with the code: tables are made from the types, and examples are parsed.

mod address;
mod cost;
mod fields;
mod links;
mod monitoring;
mod numbers;
mod openapi;
mod reference;
mod stops;

use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use laststream_base::versions::Program;
use laststream_filter::config;
use laststream_lint as lint;
use laststream_local::envoy::SUPPORTED;
use laststream_policy::{Overrides, Policy};
use libtest_mimic::Trial;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

pub(crate) use self::address::ADDRESS;
use crate::cases;
use kit::completion;
use kit::prelude::*;

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, check: fn() -> Outcome| {
        Trial::ignorable_test(format!("docs::{name}"), move || completion(check()))
    };
    vec![
        trial("tables_are_made_from_the_code", tables_are_made_from_the_code),
        trial("address_is_made_from_the_manifest", address::is_made_from_the_manifest),
        trial("openapi_is_made_from_the_code", openapi::is_made_from_the_code),
        trial("openapi_is_whole", openapi::is_whole),
        trial("schema_and_module_take_the_same_numbers", numbers::schema_and_module_take_the_same),
        trial("configurations_are_taken_by_the_module", configurations_are_taken_by_the_module),
        trial("named_cases_exist", named_cases_exist),
        trial("tests_named_in_the_threat_model_exist", tests_named_in_the_threat_model_exist),
        trial("policies_are_taken_by_render", policies_are_taken_by_render),
        trial("links_lead_somewhere", links::lead_somewhere),
        trial("each_alert_has_a_runbook", monitoring::each_alert_has_a_runbook),
        trial("pages_are_short", pages_are_short),
        trial("tested_versions_are_those_that_run", tested_versions_are_those_that_run),
    ]
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> Outcome<String> {
    fs::read_to_string(root().join(file)).with_context(|| file.to_owned())
}

/// Checks that a part of a file is what the code says, or writes it anew.
fn compare(file: &str, name: &str, mut text: String, part: Range<usize>, made: &str) -> Outcome {
    if text[part.clone()] == *made {
        return Ok(());
    }
    if std::env::var_os("LASTSTREAM_BLESS").is_none() {
        bail!(
            "{file}: `{name}` is not what the code says; `cargo bless` writes it anew. It should \
             be\n{made}"
        );
    }
    text.replace_range(part, made);
    // Renamed into place, because other trials read the file at the same time.
    let fresh = root().join(format!("{file}.new"));
    fs::write(&fresh, text).with_context(|| file.to_owned())?;
    fs::rename(fresh, root().join(file)).with_context(|| file.to_owned())
}

/// The text between `<!-- table: NAME -->` and `<!-- end -->` is the table made from the code. The
/// README also has the number of the linter's rules.
fn tables_are_made_from_the_code() -> Outcome {
    for (file, name, table) in tables()? {
        let text = read(file)?;
        let opening = format!("<!-- table: {name} -->\n");
        let start = text.find(&opening).with_context(|| format!("{file} has no {opening}"))?
            + opening.len();
        let length = text[start..]
            .find("<!-- end -->")
            .with_context(|| format!("{file}: the table {name} has no end"))?;
        compare(file, name, text, start..start + length, &table)?;
    }
    let text = read("README.md")?;
    let end = text.find(" rules]").context("README.md does not say how many rules there are")?;
    let start = text[..end].rfind('[').context("README.md does not link the rules")? + 1;
    compare("README.md", "rules", text, start..end, &lint::rules().count().to_string())
}

/// Each table: its file, its name and its text.
fn tables() -> Outcome<Vec<(&'static str, &'static str, String)>> {
    Ok(vec![
        ("README.md", "cost", cost::table()?),
        ("README.md", "stops", stops::table()?),
        ("docs/configuration.md", "configuration", fields::configuration()?),
        ("docs/policy.md", "policy", fields::policy()?),
        ("docs/gate-times.md", "timing", reference::protocol_times()),
        ("docs/metrics.md", "metrics", reference::all_metrics()),
        ("docs/metrics.md", "gate metrics", reference::gate_metrics()),
        ("docs/trusting-headers.md", "presets", reference::presets()?),
        ("docs/monitoring.md", "alerts", monitoring::alerts()?),
        ("docs/monitoring.md", "panels", monitoring::panels()?),
        ("docs/timeouts.md", "times", reference::times()?),
    ])
}

/// The most words of a page, so that a reader gets to its end.
const LONGEST: [(&str, usize); 4] = [
    ("README.md", 2_450),
    ("docs/gate.md", 2_400),
    ("docs/operate.md", 3_200),
    ("RATIONALE.md", 4_250),
];
/// The most words of a page in docs/install. Each is complete by itself.
const LONGEST_INSTALLATION: usize = 800;

fn pages_are_short() -> Outcome {
    let files = links::files(&["md"])?;
    let pages = files.iter().filter(|file| file.starts_with("docs/install/"));
    let pages: Vec<_> = pages.map(|file| (file.as_str(), LONGEST_INSTALLATION)).collect();
    ensure!(pages.len() >= 7, "few pages in docs/install: {pages:?}");
    for (file, longest) in pages.into_iter().chain(LONGEST) {
        let words = read(file)?.split_whitespace().count();
        ensure!(words <= longest, "{file} has {words} words, more than {longest}");
    }
    Ok(())
}

/// The pages of the tested versions name what the tests run.
fn tested_versions_are_those_that_run() -> Outcome {
    let page = read("docs/versions.md")?;
    let mesh = read("tests/mesh/README.md")?;
    for (part, module) in [
        ("istio-1.31", "istio.io/istio v"),
        ("istio-1.30", "istio.io/istio v"),
        ("kubernetes", "k8s.io/kubernetes v"),
        ("envoy-gateway", "github.com/envoyproxy/gateway v"),
    ] {
        let pinned = read(&format!("tests/mesh/parts/{part}/go.mod"))?;
        let version = pinned.lines().find_map(|line| line.split_once(module));
        let (_, version) = version.with_context(|| format!("no version of {module}"))?;
        let version = version.split(' ').next().unwrap_or_default();
        for (file, text) in [("docs/versions.md", &page), ("tests/mesh/README.md", &mesh)] {
            ensure!(text.contains(version), "{file} does not name {module}{version}");
        }
    }
    for program in Program::ALL {
        let Program { name, tested, .. } = program;
        let row = format!("| {name} | {} |", program.range());
        ensure!(page.contains(&row), "docs/versions.md has no row `{row}`");
        ensure!(page.contains(&format!("| {tested}")), "docs/versions.md: {name} {tested}");
    }
    let envoys: Vec<String> = SUPPORTED.iter().map(ToString::to_string).collect();
    ensure!(page.contains(&envoys.join(", ")), "docs/versions.md does not name {envoys:?}");
    Ok(())
}

/// Whether a file is documentation for users. Its examples must be valid.
fn is_for_users(file: &str) -> bool {
    file == "README.md" || (file.starts_with("docs/") && !file.starts_with("docs/cost/"))
}

/// Every block of JSON in the documents is a configuration.
fn configurations_are_taken_by_the_module() -> Outcome {
    let mut blocks = 0;
    for file in links::files(&["md"])?.iter().filter(|file| is_for_users(file)) {
        for json in blocks_of(&read(file)?, "json") {
            config::parse(json.as_bytes()).with_context(|| format!("{file}: {json}"))?;
            blocks += 1;
        }
    }
    ensure!(blocks > 2, "the documents show {blocks} configurations");
    Ok(())
}

/// Every policy in the documents is valid, without a warning: blocks of YAML with a `module`, and
/// here-documents that shell commands write to policy.yaml.
fn policies_are_taken_by_render() -> Outcome {
    let mut policies = 0;
    for file in links::files(&["md"])?.iter().filter(|file| is_for_users(file)) {
        let text = read(file)?;
        let shown = blocks_of(&text, "yaml")
            .into_iter()
            .filter(|block| block.lines().any(|line| line.starts_with("module: ")));
        let written = blocks_of(&text, "sh").into_iter().filter_map(|block| {
            let (_, from) = block.split_once("> policy.yaml <<'E'\n")?;
            Some(from.split_once("\nE\n")?.0.to_owned())
        });
        for policy in shown.chain(written) {
            let read = match Policy::read(policy.as_bytes(), &Overrides::default()) {
                Ok(read) => read,
                Err(refused) => bail!("{file}: {policy}: {:?}", refused.0),
            };
            ensure!(read.warnings.is_empty(), "{file}: {policy}: {:?}", read.warnings);
            policies += 1;
        }
    }
    ensure!(policies > 3, "the documents show {policies} policies");
    Ok(())
}

fn markdown_options() -> Options {
    Options::ENABLE_TABLES
}

/// The block of shell commands in a document that has these words.
pub(crate) fn commands(file: &str, words: &str) -> Outcome<String> {
    let blocks = blocks_of(&read(file)?, "sh");
    let block = blocks.into_iter().find(|block| block.contains(words));
    block.with_context(|| format!("{file} has no block with `{words}`"))
}

/// The blocks of code in one language.
fn blocks_of(text: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut inside = false;
    for event in Parser::new_ext(text, markdown_options()) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(name))) if *name == *language => {
                inside = true;
                blocks.push(String::new());
            }
            Event::End(TagEnd::CodeBlock) => inside = false,
            Event::Text(part) if inside => {
                blocks.iter_mut().last().into_iter().for_each(|block| block.push_str(&part))
            }
            _ => {}
        }
    }
    blocks
}

/// Each row of the comparison names cases of the gate in its last column, and those exist.
fn named_cases_exist() -> Outcome {
    let text = read("docs/comparison.md")?;
    let known: Vec<&str> = cases::all().into_iter().map(|case| case.name).collect();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1)
        .map(|line| line.split(" | ").collect())
        .collect();
    for (number, row) in (1..).zip(&rows) {
        let [first, .., proof] = row.as_slice() else { bail!("row {number} has no columns") };
        ensure_eq!(*first, format!("| {number}"), "the number of a row");
        let named: Vec<&str> = proof.split('`').skip(1).step_by(2).collect();
        ensure!(!named.is_empty(), "row {number} names no case");
        for name in named {
            ensure!(
                known.iter().any(|known| known.ends_with(&format!("gate::{name}"))),
                "row {number} names {name}, which is not there"
            );
        }
    }
    ensure_eq!(rows.len(), 36, "rows");
    Ok(())
}

/// The tests in the last column of each table of the threat model exist: cases, or tests of the
/// command line.
fn tests_named_in_the_threat_model_exist() -> Outcome {
    let text = read("docs/threat-model.md")?;
    let cases: Vec<&str> = cases::all().into_iter().map(|case| case.name).collect();
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| "))
        .filter_map(|line| line.trim_end_matches(" |").rsplit_once(" | "));
    let named: Vec<&str> = rows
        .flat_map(|(_, proof)| proof.split('`').skip(1).step_by(2))
        .filter(|name| name.contains("::"))
        .collect();
    ensure!(named.len() > 15, "docs/threat-model.md names {named:?} only");
    for name in named {
        let is_there = match name.split("::").collect::<Vec<_>>().as_slice() {
            [folder, file, test] => {
                read(&format!("companion-cli/tests/program/{folder}/{file}.rs"))?
                    .contains(&format!("fn {test}()"))
            }
            _ => cases.iter().any(|case| case.ends_with(&format!("::{name}"))),
        };
        ensure!(is_there, "docs/threat-model.md names `{name}`, which is not there");
    }
    Ok(())
}
