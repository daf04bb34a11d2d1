//! Rules and findings. A rule consists of texts and one function over all inputs; a finding is a
//! place where a rule does not hold.

use crate::template::variable;
use crate::{ClusterObject, Inputs, Node};
use manifest_text::yaml::tree::Position;
use serde::Serialize;

#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    strum::EnumString,
    strum::IntoStaticStr,
    Serialize,
)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Works today and fails in certain situations.
    Warning,
    /// Does not work.
    Error,
}

impl Severity {
    /// The name in lower case.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug, Serialize)]
pub struct Rule {
    /// The stable code, which is never reused for another rule.
    pub code: &'static str,
    pub severity: Severity,
    /// The problem, in a few words.
    pub title: &'static str,
    /// The consequence on a real mesh, and its cause.
    pub why: &'static str,
    /// The change that resolves the finding.
    pub fix: &'static str,
    #[serde(skip)]
    pub checks: Vec<Check>,
}

pub type Check = for<'g> fn(&'g Inputs, &mut Findings<'g>);
/// The checks of a group of rules, each with the code of its rule. A rule may have several.
pub type Checks = &'static [(&'static str, Check)];
/// A group of rules: their texts, a section for each, and their checks.
pub type Group = (&'static str, Checks);

/// A place where a rule does not hold.
#[derive(Debug, Clone)]
pub struct Finding {
    pub rule: &'static Rule,
    /// The name of the file, as given or as found in a folder; `<stdin>` for standard input.
    pub file: String,
    /// The object of a cluster that the place is in. It has no lines that a user knows.
    pub object: Option<ClusterObject>,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
    pub width: u32,
    /// The path of the node, such as `spec.configPatches[0].patch.value.name`; empty without a
    /// node.
    pub path: String,
    /// The problem at this place.
    pub message: String,
    /// The text of the line; none if it may contain a secret.
    pub source_line: Option<String>,
    /// The line of the key, or else of the scalar, in the file's own text that holds the finding.
    /// An ignore comment there applies, too.
    pub carrier_line: u32,
    pub source: u32,
}

/// The most findings of one rule: more would not help the user, and the limit bounds hostile input.
const MOST: usize = 1_000;

pub struct Findings<'g> {
    pub(crate) rule: &'static Rule,
    inputs: &'g Inputs,
    pub list: Vec<Finding>,
    /// The values of which nothing is known yet, because they are filled in later.
    pub skipped: Vec<Node<'g>>,
}

impl<'g> Findings<'g> {
    pub fn new(rule: &'static Rule, inputs: &'g Inputs) -> Self {
        Self { rule, inputs, list: Vec::new(), skipped: Vec::new() }
    }

    /// A finding at a node, unless that is a value that is filled in later.
    pub fn at(&mut self, node: Node<'g>, message: impl Into<String>) {
        if node.text().is_some_and(|text| variable(text).is_some()) {
            self.skipped.push(node);
        } else {
            self.surely_at(node, message);
        }
    }

    /// A finding that hangs on no value that is filled in later.
    pub fn surely_at(&mut self, node: Node<'g>, message: impl Into<String>) {
        if self.list.len() > MOST {
            return; // before a position and path are computed
        }
        let place = node.place();
        let width = place.raw().map_or(1, |raw| raw.bytes.1.saturating_sub(raw.bytes.0));
        let file = self.inputs.file_of(node.tree);
        self.add(Some(node), file, (place.position(), width), message.into());
    }

    pub fn in_text(&mut self, node: Node<'g>, part: &str, message: impl Into<String>) {
        match node.position_of(part) {
            Some(place) => {
                self.add(Some(node), self.inputs.file_of(node.tree), place, message.into());
            }
            None => self.surely_at(node, message),
        }
    }

    /// A finding in a file that may have no nodes.
    pub fn in_file(&mut self, source: u32, position: Position, message: impl Into<String>) {
        self.add(None, source, (position, 1), message.into());
    }

    fn add(
        &mut self,
        node: Option<Node<'g>>,
        source: u32,
        (position, width): (Position, u32),
        message: String,
    ) {
        let message = match self.list.len() {
            count if count > MOST => return,
            MOST => format!("there are more of these from here on: the first {MOST} are shown"),
            _ => message,
        };
        let file = self.inputs.sources.get(source as usize);
        let object = file.and_then(|file| file.object.as_ref());
        let line = file.and_then(|file| file.line(position.line));
        let length = line.map_or(0, |line| u32::try_from(line.chars().count()).unwrap_or(u32::MAX));
        let carrier = node.map(Node::outermost).map(|node| node.key().unwrap_or(node));
        // Without a node nothing says whether the line holds a secret.
        let is_hidden = object.is_some() || node.is_none_or(|node| is_secret(node.place()));
        self.list.push(Finding {
            rule: self.rule,
            file: file.map(|file| file.name.clone()).unwrap_or_default(),
            object: object.cloned(),
            line: position.line,
            column: position.column,
            width: width.min((length + 1).saturating_sub(position.column)).max(1),
            path: node.map(Node::path).unwrap_or_default(),
            message,
            source_line: line.filter(|line| !is_hidden && !sounds_secret(line)).map(str::to_owned),
            carrier_line: carrier.map_or(position.line, |node| node.position().line),
            source,
        });
    }
}

const SECRETS: [&str; 6] = ["secret", "password", "passwd", "token", "credential", "private"];

fn sounds_secret(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    SECRETS.iter().any(|word| text.contains(word))
}

/// Whether the value may be a secret and must not be shown: by its key, by the name of its
/// variable, or because it is in a Secret.
pub fn is_secret(node: Node<'_>) -> bool {
    let key = node.key_text();
    let variable =
        node.parent().filter(|_| key == Some("value")).and_then(|map| map.text_of("name"));
    [key, variable].into_iter().flatten().any(sounds_secret) || is_in_secret(node)
}

pub fn is_in_secret(node: Node<'_>) -> bool {
    node.outwards().any(is_secret_object)
}

/// Whether a map is a Secret. A file that ends too early may have no `kind`.
fn is_secret_object(map: Node<'_>) -> bool {
    map.get("stringData").is_some()
        || map.get("data").is_some() && map.text_of("kind") != Some("ConfigMap")
}
