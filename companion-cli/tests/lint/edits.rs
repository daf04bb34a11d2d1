//! Single edits of every rendered example: a slip in a key, in a word, in a number of a hook or a
//! port. The linter must find nearly all of them. The golden file lists the others.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use laststream_lint::{Assume, SourceFile, gather, lint};

use crate::output::golden;

/// Why edits are not found.
const REASONS: [(&str, &str); 4] = [
    ("yaml: port_value", "no file shows what asks this port, or whose it is"),
    ("envoyfilter.yaml: isio", "a label, which users choose"),
    ("job.yaml", "an argument of `laststream exec`, which is no stop hook"),
    ("overlay.yaml: deploment", "without this key the ConfigMap is no overlay"),
];

/// The files of a folder: their names and texts.
type Files = Vec<(String, String)>;

fn rendered() -> Vec<Files> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../envoyfilter-manifests");
    let folders = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<_> = folders.filter(|path| path.join("policy.yaml").exists()).collect();
    folders.sort();
    let files = |folder| {
        let sources = gather(&[folder], &mut std::io::empty()).unwrap().into_iter();
        let sources = sources.filter(|source| !source.name.ends_with("/policy.yaml"));
        let text = |name: &str| std::fs::read_to_string(name).unwrap();
        sources.map(|source| (source.name.clone(), text(&source.name))).collect()
    };
    folders.into_iter().map(files).collect()
}

fn found(files: &Files, edited: Option<(usize, &str)>) -> BTreeSet<(String, &'static str)> {
    let files = files.iter().enumerate().map(|(index, (name, text))| {
        let text = edited.filter(|(at, _)| *at == index).map_or(text.as_str(), |(_, text)| text);
        SourceFile::new(name.clone(), text.as_bytes().to_vec())
    });
    let findings = lint(files.collect(), Assume::default()).unwrap();
    findings.iter().map(|finding| (finding.message.clone(), finding.rule.code)).collect()
}

/// A word without a letter in its middle.
fn slip(word: &str) -> Option<String> {
    let middle = word.len() / 2;
    let is_long = word.len() >= 4 && word.is_ascii();
    is_long.then(|| [&word[..middle], &word[middle + 1..]].concat())
}

/// The line with another key; none if it has no key that is a word.
fn other_key(line: &str) -> Option<String> {
    let start = line.len() - line.trim_start_matches([' ', '-', '"']).len();
    let (key, rest) = line.get(start..)?.split_once(':')?;
    let key = key.strip_suffix('"').unwrap_or(key);
    let is_word =
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let slip = slip(key).filter(|_| is_word)?;
    let rest = line.get(start + key.len()..line.len() - rest.len())?;
    Some(format!(
        "{}{slip}{rest}{}",
        line.get(..start)?,
        line.get(start + key.len() + rest.len()..)?
    ))
}

/// The line with another value: a slip in a word that Envoy, Istio or a program knows, or the next
/// number in a port or a time of a hook.
fn other_value(line: &str) -> Option<String> {
    let value = line.split_once(": ").map(|(_, value)| value);
    let value = value.or_else(|| line.trim_start().strip_prefix("- ")).unwrap_or_default();
    let value = value.trim().trim_matches('"');
    let is_capital = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
    let is_word = !value.is_empty() && value.bytes().all(is_capital)
        || value.starts_with("envoy.")
        || value.starts_with('%')
        || ["pilot-agent", "wait", "prestop"].contains(&value);
    let other = if is_word {
        slip(value)?
    } else if let Some(option) = value.strip_prefix("--") {
        let (name, rest) = option.split_once('=')?;
        format!("--{}={rest}", slip(name)?)
    } else if line.contains("port_value:") {
        format!("{}", value.parse::<u32>().ok()? + 1)
    } else {
        return None;
    };
    let at = line.rfind(value)?;
    Some(format!("{}{other}{}", line.get(..at)?, line.get(at + value.len()..)?))
}

/// Other edits of one text that has each part once or more: ports and paths of a hook.
const PARTS: [(&str, &str); 4] = [
    ("127.0.0.1:16091", "127.0.0.1:16092"),
    ("/prestop?wait=", "/prestp?wait="),
    ("--requestTimeoutMillis=11000", "--requestTimeoutMillis=900"),
    ("terminationGracePeriodSeconds: ", "terminationGracePeriodSeconds: 1 # "),
];

fn edits_of(line: &str) -> Vec<String> {
    let line_is_comment = line.trim_start().starts_with('#');
    let parts = PARTS.iter().filter(|(part, _)| line.contains(part));
    let parts = parts.map(|(part, other)| line.replacen(part, other, 1));
    let edits = parts.chain(other_key(line)).chain(other_value(line));
    edits.filter(|edit| !line_is_comment && edit != line).collect()
}

#[test]
fn the_surviving_edits_are_made_from_the_rendered_examples() {
    let mut seen = BTreeSet::new();
    let (mut count, mut survivors) = (0, BTreeMap::<String, usize>::new());
    for files in rendered() {
        let usual = found(&files, None);
        for (index, (name, text)) in files.iter().enumerate() {
            let lines: Vec<&str> = text.lines().collect();
            for (number, line) in lines.iter().enumerate() {
                let edits = edits_of(line);
                for edit in edits.into_iter().filter(|edit| seen.insert(edit.clone())) {
                    let mut edited = lines.clone();
                    edited[number] = &edit;
                    count += 1;
                    if found(&files, Some((index, &(edited.join("\n") + "\n")))).is_subset(&usual) {
                        let file = name.rsplit('/').next().unwrap_or_default();
                        *survivors.entry(format!("{file}: {}", edit.trim())).or_default() += 1;
                    }
                }
            }
        }
    }
    let left = survivors.len();
    let mut list = format!("{left} of {count} edits are not found\n");
    let mut without_reason = Vec::new();
    for edit in survivors.keys() {
        match REASONS.iter().find(|(part, _)| edit.contains(part)) {
            Some((_, reason)) => writeln!(list, "{edit} ({reason})").unwrap(),
            None => without_reason.push(edit),
        }
    }
    assert!(without_reason.is_empty(), "not found: {without_reason:#?}");
    golden("edits.txt", &list);
    assert!(left * 10 <= count, "{left} of {count}");
}
