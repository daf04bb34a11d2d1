//! `laststream lint …`

mod args;
mod cluster;
mod cut;

use std::path::PathBuf;

use laststream_lint::change::{Change, CutStreams};
use laststream_lint::output::{self, Checked};
use laststream_lint::{self as lint, Assume, Finding, Rule};

pub(crate) use self::args::Lint;
use self::args::{Format, gather};
use crate::commands::pods::block_on;
use crate::commands::{Ended, Exit, Failure, Printer, misused};

/// What is printed: findings, the number of their sources, the streams that a change cuts now.
type Verdict = (Vec<Finding>, Checked, Option<Vec<CutStreams>>);

pub(crate) fn run(lint: &Lint, printer: &Printer) -> Ended {
    if let Some(rule) = lint.explain {
        return explain(rule, lint.output, printer);
    }
    if lint.list {
        match lint.output {
            Format::Text => printer.stdout(&output::list()),
            Format::Json | Format::Sarif => printer.json(&output::list_json()),
        }
        return Ok(Exit::Fine);
    }
    lint.refuse_contradictions()?;
    lint.outside_of_table().for_each(|warning| printer.warning(&warning));
    let verdict = judge(lint, printer)?;
    print(&verdict, lint.output, printer);
    let (findings, ..) = verdict;
    let counts = findings.iter().any(|finding| finding.rule.severity >= lint.fail_on);
    Ok(if counts { Exit::Negative } else { Exit::Fine })
}

fn explain(rule: &Rule, format: Format, printer: &Printer) -> Ended {
    if format != Format::Text {
        return Err(misused(
            "`--explain` prints text only: leave out `--output`, or take `--list` for JSON",
        ));
    }
    printer.stdout(&output::explanation(rule));
    Ok(Exit::Fine)
}

fn judge(lint: &Lint, printer: &Printer) -> Result<Verdict, Failure> {
    let assume = lint.assume()?;
    if let Some([old, new]) = lint.change.as_deref() {
        let (change, files) = read_change([old, new], assume)?;
        let is_live = lint.live.is_given();
        let cut = is_live.then(|| block_on(cut::now(&change, &lint.live, printer))).transpose()?;
        return Ok((change.findings(), Checked::Files(files), cut));
    }
    if lint.live.is_given() {
        let (findings, checked) = block_on(cluster::findings(&lint.live, assume))?;
        return Ok((findings, checked, None));
    }
    let sources = gather(&lint.files)?;
    let files = sources.len();
    Ok((lint::lint(sources, assume)?, Checked::Files(files), None))
}

/// The change, and the number of its files.
fn read_change(sides: [&PathBuf; 2], assume: Assume) -> Result<(Change, usize), Failure> {
    let [old, new] = sides.map(|side| gather(std::slice::from_ref(side)));
    let (old, new) = (old?, new?);
    let files = old.len() + new.len();
    Ok((Change::read(old, new, assume)?, files))
}

fn print((findings, checked, cut): &Verdict, format: Format, printer: &Printer) {
    match format {
        Format::Text => {
            if !findings.is_empty() {
                printer.coloured(&output::text(findings));
            }
            if let Some(cut) = cut.as_ref().filter(|cut| !cut.is_empty()) {
                printer.stdout(&output::cut(cut));
            }
        }
        Format::Json => printer.json(&output::json(findings, *checked, cut.as_deref())),
        Format::Sarif => {
            printer.json(&output::sarif(findings, std::env::current_dir().ok().as_deref()))
        }
    }
    printer.status_line(&output::summary(findings, *checked));
    if let Some(cut) = cut {
        printer.status_line(&output::cut_summary(cut));
    }
}
