//! What was found: which rule, where, and what to do about it.

use super::given::Given;
use super::node::Node;
use super::rule::Rule;
use super::tree::Position;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know.
    Info,
    /// Works today, and will hurt.
    Warning,
    /// Does not do what it is there for.
    Error,
}

impl Severity {
    /// In lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One thing that is not as it should be.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The rule that found it.
    pub rule: &'static Rule,
    /// The file as it was named.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// How many characters are meant.
    pub width: u32,
    /// Such as `spec.configPatches[0].patch.value.name`; empty where the file cannot be read.
    pub path: String,
    /// What is wrong here.
    pub message: String,
    /// The line itself.
    pub source_line: Option<String>,
    /// The line of the scalar that holds the text in which it was found.
    pub(super) carrier_line: u32,
    pub(super) source: u32,
}

/// Collects what one rule finds.
pub(super) struct Found<'g> {
    rule: &'static Rule,
    given: &'g Given,
    pub(super) findings: Vec<Finding>,
}

impl<'g> Found<'g> {
    pub(super) fn new(rule: &'static Rule, given: &'g Given) -> Self {
        Self { rule, given, findings: Vec::new() }
    }

    /// A finding at a node.
    pub(super) fn at(&mut self, node: Node<'g>, message: impl Into<String>) {
        let place = node.place();
        self.push(place, place.position(), node.path(), message.into());
    }

    /// A finding in one line of a text.
    pub(super) fn in_text(&mut self, node: Node<'g>, part: &str, message: impl Into<String>) {
        self.push(node, node.line_with(part), node.path(), message.into());
    }

    /// A finding in a file that may have no nodes.
    pub(super) fn in_file(&mut self, source: u32, position: Position, message: impl Into<String>) {
        self.add(source, position, 1, String::new(), message.into(), position.line);
    }

    fn push(&mut self, place: Node<'g>, position: Position, path: String, message: String) {
        let width = place.raw().map_or(1, |raw| raw.bytes.1.saturating_sub(raw.bytes.0));
        let outermost = std::iter::successors(Some(place), |node| self.given.carrier(node.tree)).last().unwrap_or(place);
        let carrier = outermost.key().unwrap_or(outermost).position().line;
        self.add(self.given.file_of(place.tree), position, width, path, message, carrier);
    }

    fn add(&mut self, source: u32, position: Position, width: u32, path: String, message: String, carrier_line: u32) {
        let file = self.given.sources.get(source as usize);
        let line = file.and_then(|file| file.line(position.line));
        let rest = line.map_or(1, |line| (line.chars().count() as u32 + 1).saturating_sub(position.column));
        self.findings.push(Finding {
            rule: self.rule,
            file: file.map(|file| file.name.clone()).unwrap_or_default(),
            line: position.line,
            column: position.column,
            width: width.min(rest).max(1),
            path,
            message,
            source_line: line.map(|line| line.chars().take(LONGEST_LINE).collect()),
            carrier_line,
            source,
        });
    }
}

/// Longer lines are minified JSON.
const LONGEST_LINE: usize = 400;
