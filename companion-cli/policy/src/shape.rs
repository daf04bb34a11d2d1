//! The YAML text as a [`File`], and the parser's errors in words that a reader of the policy knows.

use serde_json::Value;
use serde_saphyr::Error;

use crate::error::PolicyProblem;
use crate::file::{self, File};
use crate::without::{Without, is_within, path};
use laststream_base::parse_error::{ParseError, one_of, plain};
use laststream_base::yaml::tree::{MOST_NODES, NodeKind, Raw, Tree};

/// The most problems of one policy.
const MOST: usize = 20;

/// Parses the YAML text. A text of comments alone is a policy with all defaults. Also returns the
/// problems; the policy is then without the fields that they name, or `None`.
pub(super) fn shape(text: &str) -> (Option<File>, Vec<PolicyProblem>) {
    if is_empty(text.as_bytes()) {
        return (Some(File::default()), Vec::new());
    }
    match serde_saphyr::from_str(text) {
        Ok(file) => (Some(file), Vec::new()),
        Err(error) => all_problems(text, &error),
    }
}

/// Reads the policy again without each wrong field, until the rest has no error.
fn all_problems(text: &str, first: &Error) -> (Option<File>, Vec<PolicyProblem>) {
    let tree = Tree::read(text, MOST_NODES);
    let has_alias = tree.nodes.iter().any(|raw| matches!(raw.kind, NodeKind::Alias(_)));
    let root = match tree.roots[..] {
        [root] if tree.errors.is_empty() && !has_alias => root,
        [_, second, ..] if tree.errors.is_empty() => return (None, vec![two(&tree, second)]),
        _ => return (None, vec![of_text(first)]),
    };
    let (mut wrong, mut problems): (Vec<_>, Vec<_>) =
        CHOICES.iter().filter_map(|choice| choice.problem(&tree)).unzip();
    while wrong.len() < MOST {
        let rest = Without::nodes(&tree, root, &wrong);
        let error = match serde_saphyr::from_str(&rest.text) {
            Ok(file) => return (Some(file), problems),
            Err(error) => error,
        };
        let line = error.location().map(|location| location.line());
        let Some(node) = line.and_then(|line| rest.node(line)) else { break };
        let node = if lacks_field(&error) { section(&tree, node) } else { node };
        // A field that lacks what was taken out of it is no problem of its own.
        if !wrong.iter().any(|inner| is_within(&tree, *inner, node)) {
            problems.push(of_node(&tree, node, &error));
        }
        wrong.push(node);
        if node == root {
            break;
        }
    }
    if problems.is_empty() {
        problems.push(of_text(first));
    }
    (None, problems)
}

fn lacks_field(error: &Error) -> bool {
    matches!(error.without_snippet(), Error::SerdeMissingField { .. })
}

/// The section of a field. The parser's place for what a section lacks is its first field.
fn section(tree: &Tree, node: u32) -> u32 {
    match tree.nodes.get(node as usize) {
        Some(Raw { kind: NodeKind::Map(_), .. }) | None => node,
        Some(raw) => raw.parent,
    }
}

/// A place for one of several fields, whose words alone the parser does not refuse there: it takes
/// what follows for the value.
struct Choice {
    path: &'static str,
    /// The word that stands alone.
    word: &'static str,
    example: &'static str,
}

const CHOICES: [Choice; 3] = [
    Choice { path: "placement", word: "", example: "{gateway: {}}" },
    Choice { path: "forwarded_for", word: "xff", example: "{header: cf-connecting-ip}" },
    Choice { path: SECRET, word: "", example: "{environment: LASTSTREAM_SECRET}" },
];
/// The secret itself may stand there by mistake.
const SECRET: &str = "gate.secret";

impl Choice {
    fn problem(&self, tree: &Tree) -> Option<(u32, PolicyProblem)> {
        let node = tree.node_of(self.path)?;
        let (text, example) = (tree.text(node), self.example);
        let is_right = match &tree.nodes.get(node as usize)?.kind {
            NodeKind::Scalar(text, _) => {
                **text == *self.word || ["", "~", "null"].contains(&&**text)
            }
            NodeKind::Map(fields) => !fields.is_empty(),
            _ => false,
        };
        let subject = match text.filter(|_| self.path != SECRET) {
            Some(word) => format!("`{word}` is here"),
            None if text.is_some() => "a word is here".to_owned(),
            None => "no field is here".to_owned(),
        };
        let message =
            format!("{subject}, but this must be one field with its value, as in `{example}`");
        let problem = PolicyProblem { path: self.path.into(), message, place: place(tree, node) };
        (!is_right).then_some((node, problem))
    }
}

fn of_text(error: &Error) -> PolicyProblem {
    let ParseError { place, message: usual } = ParseError::from(error);
    let message = message(error, None).unwrap_or(usual);
    PolicyProblem { path: String::new(), message, place }
}

fn two(tree: &Tree, second: u32) -> PolicyProblem {
    let message = "a second document begins here, and a policy is one: keep one of them";
    PolicyProblem { path: String::new(), message: message.to_owned(), place: place(tree, second) }
}

fn place(tree: &Tree, node: u32) -> Option<(u64, u64)> {
    let start = tree.nodes.get(node as usize)?.start;
    Some((start.line.into(), start.column.into()))
}

fn of_node(tree: &Tree, node: u32, error: &Error) -> PolicyProblem {
    let path = path(tree, node);
    let is_key = matches!(
        error.without_snippet(),
        Error::SerdeUnknownField { .. } | Error::DuplicateMappingKey { .. }
    );
    let raw = tree.nodes.get(node as usize);
    let key = raw.map(|raw| raw.key).filter(|_| is_key);
    let words = message(error, tree.text(node)).filter(|_| !path.starts_with(SECRET));
    let message = words.unwrap_or_else(|| ParseError::from(error).message);
    let path = if path.starts_with(SECRET) { SECRET.to_owned() } else { path };
    PolicyProblem { path, message, place: place(tree, key.unwrap_or(node)) }
}

/// Whether a text has comments at most, as a file that was truncated before it is written again.
pub fn is_empty(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .all(|line| line.is_empty() || line.starts_with(b"#") || line == b"---")
}

/// The message of an error that names what the policy says, such as the value as it is written;
/// `None` if there is nothing to name.
fn message(error: &Error, written: Option<&str>) -> Option<String> {
    Some(match error.without_snippet() {
        Error::SerdeUnknownField { field, expected, .. } => unknown_field(field, expected),
        // Not at the secret, which may stand there itself.
        Error::SerdeUnknownVariant { expected, .. } if expected.first() == Some(&"environment") => {
            return None;
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            format!("`{variant}` is not known here: write {}", one_of(expected))
        }
        Error::SerdeInvalidValue { unexpected, expected, .. }
        | Error::SerdeInvalidType { unexpected, expected, .. } => {
            let value = written.map_or_else(|| plain(unexpected), |text| format!("`{text}`"));
            format!("{value} is here, but this must be {}", plain(expected))
        }
        Error::Unexpected { expected, .. } | Error::InvalidScalar { ty: expected, .. } => {
            format!("`{}` is here, but this must be {}", written?, plain(expected))
        }
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("`{key}` is written twice: keep one")
        }
        Error::Message { msg, .. } => msg.clone(),
        _ => return None,
    })
}

/// The sections whose fields are mistaken for each other's.
const SECTIONS: [&str; 3] = ["drain", "gate", "end"];

/// Names the section to which the field belongs, if it is one of another section.
fn unknown_field(field: &str, expected: &[&str]) -> String {
    let schema = file::schema();
    let has_it = |section: &&&str| fields(&schema["properties"][section]).any(|name| name == field);
    match SECTIONS.iter().find(has_it) {
        Some(section) => format!(
            "there is no field `{field}` here: it belongs to `{section}`, as in `{section}: \
                {{{field}: …}}`"
        ),
        None if schema["properties"].get(field).is_some() => {
            format!("there is no field `{field}` here: it belongs to the top of the policy")
        }
        None => format!("there is no field `{field}`: write {}", one_of(expected)),
    }
}

/// The names of a section's fields in the schema; an optional section is one of two choices there.
fn fields(section: &Value) -> impl Iterator<Item = &String> {
    let choices = section["anyOf"].as_array().into_iter().flatten();
    let sections = std::iter::once(section).chain(choices);
    sections
        .filter_map(|section| section["properties"].as_object())
        .flat_map(|fields| fields.keys())
}
