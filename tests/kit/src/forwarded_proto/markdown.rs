//! A strict parser for the part of Markdown that the tables need: probable mistakes are refused.

use std::iter::Peekable;

use crate::{Context as _, Outcome, bail, ensure};

/// The contents under one `##` heading.
pub struct Section<'t> {
    pub title: &'t str,
    /// Lines of the form ``Key: `value` ``.
    pub settings: Vec<(&'t str, &'t str)>,
    /// The lines of the fenced block.
    pub code: Option<String>,
    pub table: Option<Grid<'t>>,
}

/// A table: its head, and its rows with the numbers of their lines.
pub struct Grid<'t> {
    pub columns: Vec<&'t str>,
    pub rows: Vec<(usize, Vec<&'t str>)>,
}

/// The sections of a text, in order. The text above the first section is ignored.
pub fn sections<'t>(text: &'t str, keys: &[&str]) -> Outcome<Vec<Section<'t>>> {
    let mut sections: Vec<Section<'t>> = Vec::new();
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line)).peekable();
    while let Some((number, line)) = lines.next() {
        if let Some(title) = line.strip_prefix("## ") {
            sections.push(Section { title, settings: Vec::new(), code: None, table: None });
            continue;
        }
        let Some(section) = sections.last_mut() else { continue };
        if line.starts_with("```") {
            ensure!(section.code.is_none(), "line {number}: a second block of code in one section");
            let block: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            section.code = Some(block.join("\n"));
        } else if line.starts_with('|') {
            ensure!(section.table.is_none(), "line {number}: a second table in one section");
            section.table = Some(grid((number, line), &mut lines)?);
        } else if let Some((key, value)) =
            line.split_once(": `").filter(|(key, _)| !key.contains(' '))
        {
            ensure!(keys.contains(&key), "line {number}: `{key}` is not known here");
            section.settings.push((
                key,
                value
                    .strip_suffix('`')
                    .with_context(|| format!("line {number}: no closing backtick at its end"))?,
            ));
        }
    }
    Ok(sections)
}

/// The table that begins with this line.
fn grid<'t>(
    (number, line): (usize, &'t str),
    lines: &mut Peekable<impl Iterator<Item = (usize, &'t str)>>,
) -> Outcome<Grid<'t>> {
    let columns = cells(line).with_context(|| format!("line {number}"))?;
    let (below, count) = (number + 1, columns.len());
    let (_, rule) = lines.next().unwrap_or_default();
    ensure!(is_rule(rule, count), "line {below}: a rule of {count} columns should stand here");
    let mut rows = Vec::new();
    while let Some((number, line)) = lines.next_if(|(_, line)| line.starts_with('|')) {
        rows.push((number, row(line, &columns).with_context(|| format!("line {number}"))?));
    }
    Ok(Grid { columns, rows })
}

fn row<'t>(line: &'t str, columns: &[&str]) -> Outcome<Vec<&'t str>> {
    let cells = cells(line)?;
    ensure!(cells.len() == columns.len(), "{} cells for {} columns", cells.len(), columns.len());
    Ok(cells)
}

fn cells(line: &str) -> Outcome<Vec<&str>> {
    let inner = line.trim_end().strip_prefix('|').and_then(|rest| rest.strip_suffix('|'));
    Ok(inner.context("a row ends with `|`")?.split('|').map(str::trim).collect())
}

fn is_rule(line: &str, columns: usize) -> bool {
    cells(line).is_ok_and(|cells| {
        cells.len() == columns
            && cells.iter().all(|cell| !cell.is_empty() && cell.bytes().all(|byte| byte == b'-'))
    })
}

impl<'t> Section<'t> {
    /// The value of a setting that must occur exactly once.
    pub fn setting(&self, key: &str) -> Outcome<&'t str> {
        self.optional(key)?.with_context(|| format!("no line ``{key}: `…` ``"))
    }

    pub(crate) fn optional(&self, key: &str) -> Outcome<Option<&'t str>> {
        let mut values =
            self.settings.iter().filter(|(name, _)| *name == key).map(|(_, value)| *value);
        match (values.next(), values.next()) {
            (value, None) => Ok(value),
            _ => bail!("`{key}` is there twice"),
        }
    }
}

impl Grid<'_> {
    /// Checks that every column is known, and that no required one is missing.
    pub(crate) fn check_columns(&self, required: &[&str], optional: &[&str]) -> Outcome {
        for (index, column) in self.columns.iter().enumerate() {
            ensure!(
                required.contains(column) || optional.contains(column),
                "the column `{column}` is not known"
            );
            ensure!(
                !self.columns[..index].contains(column),
                "the column `{column}` is there twice"
            );
        }
        for column in required {
            ensure!(self.columns.contains(column), "the column `{column}` is missing");
        }
        Ok(())
    }

    /// A cell of a row; nothing when the table has no such column.
    pub fn cell<'c>(&self, row: &[&'c str], column: &str) -> Option<&'c str> {
        let index = self.columns.iter().position(|name| *name == column)?;
        row.get(index).copied()
    }
}
