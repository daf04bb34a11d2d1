//! Writes the model: block style throughout, two spaces, comments above their entries.

use super::scalar::{is_printable, scalar};
use super::{List, Map, Node};

/// How wide a comment may be, with its indentation.
const WIDTH: usize = 120;
/// The narrowest width, for deeply indented comments.
const NARROWEST: usize = 50;

pub(super) fn file(about: &[String], documents: &[Map]) -> String {
    let mut out = String::new();
    for paragraph in about {
        comment(&mut out, paragraph, 0);
    }
    for (index, document) in documents.iter().enumerate() {
        if index > 0 || (!about.is_empty() && documents.len() > 1) {
            out.push_str("---\n");
        }
        map(&mut out, document, 0, 0);
    }
    out
}

/// Writes a map. `begun`: how much of the first line has been written already, because it follows a
/// `- `.
fn map(out: &mut String, map: &Map, indent: usize, begun: usize) {
    if map.entries.is_empty() {
        out.push_str("{}\n");
    }
    for (index, (note, (key, value))) in map.entries.iter().enumerate() {
        if index > 0 || begun == 0 {
            if let Some(note) = note {
                comment(out, note, indent);
            }
            spaces(out, indent);
        }
        out.push_str(&scalar(key));
        out.push(':');
        self::value(out, value, indent);
    }
}

/// Writes the value of a key. Lists are indented as far as their key.
fn value(out: &mut String, value: &Node, indent: usize) {
    match value {
        Node::Map(inner) if !inner.entries.is_empty() => {
            out.push('\n');
            map(out, inner, indent + 2, 0);
        }
        Node::List(inner) if !inner.entries.is_empty() => {
            out.push('\n');
            list(out, inner, indent);
        }
        _ => {
            out.push(' ');
            leaf(out, value, indent);
        }
    }
}

fn list(out: &mut String, list: &List, indent: usize) {
    for (note, item) in &list.entries {
        let first = match item {
            Node::Map(map) => map.entries.first().and_then(|(note, _)| note.as_ref()),
            _ => None,
        };
        for note in note.iter().chain(first) {
            comment(out, note, indent);
        }
        spaces(out, indent);
        out.push_str("- ");
        match item {
            Node::Map(inner) if !inner.entries.is_empty() => {
                map(out, inner, indent + 2, indent + 2)
            }
            Node::List(inner) if !inner.entries.is_empty() => {
                // A list in a list begins on a new line; nothing that is rendered has one,
                // but JSON may.
                out.pop();
                out.push('\n');
                self::list(out, inner, indent + 2);
            }
            leaf_value => leaf(out, leaf_value, indent),
        }
    }
}

fn leaf(out: &mut String, value: &Node, indent: usize) {
    match value {
        Node::Null => out.push_str("null"),
        Node::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Node::Number(number) => out.push_str(&number.to_string()),
        Node::Text(text) => out.push_str(&scalar(text)),
        Node::Block(text) if is_block(text) => return block(out, text, indent + 2),
        Node::Block(text) => out.push_str(&scalar(text)),
        Node::List(_) => out.push_str("[]"),
        Node::Map(_) => out.push_str("{}"),
    }
    out.push('\n');
}

/// Whether a text can be a block: readers find its indentation in its first line, and its end is
/// not in doubt.
fn is_block(text: &str) -> bool {
    let printable = text.chars().all(|character| character == '\n' || is_printable(character));
    printable && !text.starts_with([' ', '\n']) && !text.ends_with('\n') && !text.is_empty()
}

fn block(out: &mut String, text: &str, indent: usize) {
    out.push_str("|-\n");
    for line in text.split('\n') {
        if !line.is_empty() {
            spaces(out, indent);
        }
        out.push_str(line);
        out.push('\n');
    }
}

/// Wraps words into comment lines. Line breaks in a value stay inside the comment.
fn comment(out: &mut String, text: &str, indent: usize) {
    let width = WIDTH.saturating_sub(indent + 2).max(NARROWEST);
    let mut used = 0;
    for word in text.split_whitespace() {
        let word: String = word
            .chars()
            .map(|character| if is_printable(character) { character } else { '?' })
            .collect();
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            out.push('\n');
            used = 0;
        }
        if used == 0 {
            spaces(out, indent);
            out.push_str("# ");
        } else {
            out.push(' ');
            used += 1;
        }
        out.push_str(&word);
        used += length;
    }
    if used > 0 {
        out.push('\n');
    }
}

fn spaces(out: &mut String, count: usize) {
    out.extend(std::iter::repeat_n(' ', count));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::{List, Map, Node, write, write_map};

    #[test]
    fn comments_stand_above_their_entries() {
        let map = Map::new()
            .note("who")
            .with("name", "a")
            .with(
                "list",
                List::new()
                    .item(Map::new().note("why x").with("x", 1_u16).with("z", Map::new()))
                    .note("text")
                    .item("yes"),
            )
            .with("text", Node::Block("{\n  \"a\": 1\n}".into()));
        let expected = "# about\n# who\nname: a\nlist:\n# why x\n- x: 1\n  z: {}\n# text\n- \
            \"yes\"\ntext: |-\n  {\n    \"a\": 1\n  }\n";
        assert_eq!(write(&["about".into()], &[map]), expected);
    }

    /// Any JSON, with texts that YAML likes to misread.
    fn any_json() -> impl Strategy<Value = Value> {
        const TRAPS: &[&str] = &[
            "on",
            "yes",
            "1_000",
            "12:30:45",
            "0o7",
            "~",
            "2024-01-01",
            "=",
            "<<",
            "a\nb",
            " a",
            "- a",
            "a: b",
            "# a",
            "",
            "null",
            "1e3",
        ];
        let text = prop_oneof![
            proptest::sample::select(TRAPS).prop_map(String::from),
            any::<String>(),
            "[ -~\n]{0,12}".prop_map(String::from),
        ];
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.clone().prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::vec((text.clone(), inner), 0..5)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn written_yaml_is_read_back(value in any_json(), note in any::<String>(), block in "[ \
            -~\n]{0,30}") {
            let map = Map::new()
                .note(&note)
                .with("value", &value)
                .with("block", Node::Block(block.clone()))
                .note(&note)
                .with("end", List::new().note(note.clone()).item("x"));
            let text = write_map(&map);
            let back: Value = serde_saphyr::from_str(&text)
                .map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
            let expected = json!({ "value": value, "block": block, "end": ["x"] });
            prop_assert_eq!(back, expected, "{}", text);
        }
    }
}
