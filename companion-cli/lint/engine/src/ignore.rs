//! Comments that ignore findings: `# NAME-lint: ignore=LS206` at the end of a line for that
//! line, alone on a line for the next line with content; `ignore-file=` for the whole file.

use std::collections::HashSet;

use crate::{Finding, Inputs, SourceFile};

pub(crate) struct IgnoreComment {
    pub(crate) line: u32,
    pub(crate) codes: Vec<String>,
    scope: Scope,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Line,
    NextLine,
    File,
}

pub(crate) fn ignore_comments(inputs: &Inputs, tree: u32) -> impl Iterator<Item = IgnoreComment> {
    let name = inputs.program.name;
    inputs.tree(tree).comments.iter().filter_map(move |(line, trails, text)| {
        let instruction = text.trim().strip_prefix(name)?.strip_prefix("-lint:")?.trim();
        let (scope, codes) = match instruction.strip_prefix("ignore-file=") {
            Some(codes) => (Scope::File, codes),
            None => (
                if *trails { Scope::Line } else { Scope::NextLine },
                instruction.strip_prefix("ignore=")?,
            ),
        };
        // The text after the codes is the reason.
        let codes = codes.split_whitespace().next().unwrap_or_default();
        Some(IgnoreComment {
            line: *line,
            codes: codes.split(',').map(str::to_owned).collect(),
            scope,
        })
    })
}

/// Removes findings that comments ignore. Comments in embedded texts, such as those in ConfigMaps,
/// have no effect, because they are not comments of the file.
pub(crate) fn apply(inputs: &Inputs, findings: &mut Vec<Finding>) {
    let mut ignored = HashSet::new();
    for (file, source) in (0_u32..).zip(&inputs.sources) {
        for mark in ignore_comments(inputs, file) {
            let line = match mark.scope {
                Scope::File => WHOLE_FILE,
                Scope::Line => mark.line,
                Scope::NextLine => next_line(source, mark.line),
            };
            ignored.extend(mark.codes.into_iter().map(|code| (file, line, code)));
        }
    }
    findings.retain(|finding| {
        let lines = [WHOLE_FILE, finding.line, finding.carrier_line];
        !lines
            .iter()
            .any(|line| ignored.contains(&(finding.source, *line, finding.rule.code.to_owned())))
    });
}

/// The line number that stands for the whole file. No line has it, because lines count from 1.
const WHOLE_FILE: u32 = 0;
/// The number of lines below a comment in which the next line with content is looked for.
const FARTHEST: u32 = 100;

/// The next line that is neither blank nor a comment; `line` itself if none is near.
fn next_line(source: &SourceFile, line: u32) -> u32 {
    let holds = |next: u32| {
        source
            .line(next)
            .is_some_and(|text| !text.trim().is_empty() && !text.trim_start().starts_with('#'))
    };
    (line + 1..line.saturating_add(FARTHEST)).find(|next| holds(*next)).unwrap_or(line)
}
