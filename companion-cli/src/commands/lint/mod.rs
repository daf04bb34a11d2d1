//! `laststream lint …`

mod args;
mod cluster;
mod cut;

use std::path::PathBuf;

use laststream_lint::change::{Change, CutStreams};
use laststream_lint::output::{self, Checked};
use laststream_lint::{self as lint, Assessment, Assume, Finding, LINTER, Rule};

use self::args::Format;
pub(crate) use self::args::{Lint, gather};
use crate::commands::pods::block_on;
use crate::commands::{Ended, Exit, Failure, Printer, misused};

/// What is printed.
struct Verdict {
    findings: Vec<Finding>,
    checked: Checked,
    /// The streams that a change cuts now.
    cut: Option<Vec<CutStreams>>,
    /// What the next stop of each proxy cuts; none if a change or an upgrade is judged.
    stops: Option<Assessment>,
}

/// The most proxies without laststream that are named beside the findings.
const MOST_NAMED: usize = 5;

pub(crate) fn run(lint: &Lint, printer: &Printer) -> Ended {
    if let Some(rule) = lint.explain {
        return explain(rule, lint.output, printer);
    }
    if lint.list {
        match lint.output {
            Format::Text => printer.stdout(&output::list(&LINTER)),
            Format::Json | Format::Sarif => printer.json(&output::list_json(&LINTER)),
        }
        return Ok(Exit::Fine);
    }
    lint.refuse_contradictions()?;
    lint.outside_of_table().for_each(|warning| printer.warning(&warning));
    let verdict = judge(lint, printer)?;
    print(&verdict, lint.output, printer);
    let counts = verdict.findings.iter().any(|finding| finding.rule.severity >= lint.fail_on);
    Ok(if counts { Exit::Negative } else { Exit::Fine })
}

fn explain(rule: &Rule, format: Format, printer: &Printer) -> Ended {
    if format != Format::Text {
        return Err(misused(
            "`--explain` prints text only: leave out `--output`, or take `--list` for JSON",
        ));
    }
    printer.stdout(&output::explanation(&LINTER, rule));
    Ok(Exit::Fine)
}

fn judge(lint: &Lint, printer: &Printer) -> Result<Verdict, Failure> {
    let assume = lint.assume()?;
    if let Some([old, new]) = lint.change.as_deref() {
        let (change, files) = read_change([old, new], assume)?;
        let is_live = lint.live.is_given();
        let cut = is_live.then(|| block_on(cut::now(&change, &lint.live, printer))).transpose()?;
        let (findings, checked) = (change.findings(), Checked::Files(files));
        return Ok(Verdict { findings, checked, cut, stops: None });
    }
    let is_upgrade = !assume.upgrade.is_empty();
    let (judged, checked) = if lint.live.is_given() {
        let judged = block_on(cluster::judge(&lint.live, assume))?;
        let checked = Checked::Objects(judged.objects);
        (judged, checked)
    } else {
        let sources = gather(&lint.files)?;
        let files = sources.len();
        let judged = lint::judge(sources, assume)?;
        let checked = Checked::ObjectsOfFiles { files, read: judged.objects };
        (judged, checked)
    };
    let stops = (!is_upgrade).then_some(judged.assessment);
    Ok(Verdict { findings: judged.findings, checked, cut: None, stops })
}

/// The change, and the number of its files.
fn read_change(sides: [&PathBuf; 2], assume: Assume) -> Result<(Change, usize), Failure> {
    let [old, new] = sides.map(|side| gather(std::slice::from_ref(side)));
    let (old, new) = (old?, new?);
    let files = old.len() + new.len();
    Ok((Change::read(&LINTER, old, new, assume)?, files))
}

fn print(verdict: &Verdict, format: Format, printer: &Printer) {
    let Verdict { findings, checked, cut, stops } = verdict;
    match format {
        Format::Text => {
            if !findings.is_empty() {
                printer.coloured(&output::text(findings));
            }
            if let Some(cut) = cut.as_ref().filter(|cut| !cut.is_empty()) {
                printer.stdout(&output::cut(cut));
            }
        }
        Format::Json => {
            let mut document = output::document(findings, *checked, cut.as_deref());
            if let Some(stops) = stops {
                document["stops"] = stops.workloads().into();
            }
            printer.value(&document);
        }
        Format::Sarif => {
            printer.json(&output::sarif(&LINTER, findings, std::env::current_dir().ok().as_deref()))
        }
    }
    printer.status_line(&output::summary(findings, *checked));
    if let (Format::Text, Some(finding)) = (format, findings.first()) {
        printer.status_line(&format!("why: laststream lint --explain {}", finding.rule.code));
    }
    let sentences = stops.iter().flat_map(|stops| stops.sentences(MOST_NAMED));
    sentences.for_each(|sentence| printer.status_line(&sentence));
    if let Some(cut) = cut {
        printer.status_line(&output::cut_summary(cut));
    }
}
