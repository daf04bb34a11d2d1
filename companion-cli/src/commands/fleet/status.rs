//! `laststream status` over many pods.

use std::io::IsTerminal as _;
use std::time::Duration;

use laststream::fleet::events::Events;
use laststream::fleet::table::{self, Width};
use laststream::fleet::{Cluster, FleetError, Gates, Manner, PodSight, Survey, summary};

use super::args::FleetArgs;
use super::{block_on, ending};
use crate::commands::exit::Exit;
use crate::commands::output::FleetOutput;
use crate::commands::printer::Printer;
use crate::commands::status::terminal;

/// What `status` is given for many pods.
pub(in crate::commands) struct Wish<'a> {
    pub(in crate::commands) fleet: &'a FleetArgs,
    pub(in crate::commands) output: FleetOutput,
    /// The time from one look to the next.
    pub(in crate::commands) watch: Option<Duration>,
    pub(in crate::commands) every_gate: bool,
    pub(in crate::commands) events: bool,
}

const VERB: &str = "status";

pub(in crate::commands) fn run(wish: &Wish<'_>, printer: &Printer) -> Exit {
    block_on(printer, async {
        let cluster = wish.fleet.cluster.connect().await?;
        let gates = if wish.every_gate { Gates::Every } else { Gates::Draining };
        let manner = Manner { gates, ..wish.fleet.reach.manner(VERB) };
        let mut events = wish.events.then(Events::default);
        let (mut height, mut has_answered) = (0, false);
        loop {
            let survey = wish.fleet.survey(&cluster, manner).await;
            let exit = match survey {
                Ok(survey) => {
                    has_answered = true;
                    height = show(wish, &survey, height, printer);
                    let events = write_events(&cluster, &mut events, &survey).await;
                    if let Err(error) = events {
                        if wish.watch.is_none() {
                            return Err(error);
                        }
                        printer.warning(&error);
                    }
                    ending(&survey, printer)
                }
                Err(error) if wish.watch.is_none() || error.ends_watch(has_answered) => {
                    return Err(error);
                }
                Err(error) => {
                    printer.warning(&error);
                    height = 0;
                    Exit::Found
                }
            };
            let Some(interval) = wish.watch else { return Ok(exit) };
            if exit != Exit::Fine {
                height = 0; // a message stands below the table
            }
            tokio::time::sleep(interval).await;
        }
    })
}

async fn write_events(
    cluster: &Cluster,
    events: &mut Option<Events>,
    survey: &Survey,
) -> Result<(), FleetError> {
    match events {
        Some(events) => events.note_all(cluster, &survey.pods).await,
        None => Ok(()),
    }
}

/// Gives the number of lines, which the next look replaces on a terminal.
fn show(wish: &Wish<'_>, survey: &Survey, height: usize, printer: &Printer) -> usize {
    let sights: Vec<PodSight> =
        survey.pods.iter().map(|(pod, answer)| PodSight::of(pod, answer)).collect();
    if wish.output == FleetOutput::Json {
        printer.json(&json(&sights, survey.without_proxy));
        return 0;
    }
    let width =
        Width { namespaces: wish.fleet.is_everywhere(), wide: wish.output == FleetOutput::Wide };
    let (text, last) = (table::pods(&sights, width), last_line(&sights, survey.without_proxy));
    if wish.watch.is_some() && std::io::stdout().is_terminal() {
        let lines = fitted(&text, &last, terminal());
        printer.redraw(height, &lines);
        return lines.len();
    }
    if !sights.is_empty() {
        printer.stdout(&text);
    }
    printer.status_line(&last);
    0
}

/// What fits on the terminal: a line that it breaks, or that has scrolled away, cannot be replaced.
fn fitted(table: &str, last: &str, (columns, rows): (usize, usize)) -> Vec<String> {
    let most = rows.max(8) - 3;
    let all = table.lines().count();
    let mut lines: Vec<String> = table.lines().take(most).map(str::to_owned).collect();
    if all > most {
        lines.push(format!("and {} more, which `-l` or a larger terminal shows", all - most));
    }
    lines.push(last.to_owned());
    let width = columns.max(20) - 1;
    lines.iter().map(|line| line.chars().take(width).collect()).collect()
}

fn last_line(sights: &[PodSight], without_proxy: usize) -> String {
    let summary = summary(sights);
    if without_proxy == 0 { summary } else { format!("{summary}; {without_proxy} without a proxy") }
}

fn json(sights: &[PodSight], without_proxy: usize) -> String {
    let body = serde_json::json!({ "pods": sights, "without_proxy": without_proxy });
    format!("{body:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_redrawn_fits_on_the_terminal() {
        let table: String = (0..30).map(|row| format!("{row} {}\n", "x".repeat(200))).collect();
        let lines = fitted(&table, "30 pods", (80, 24));
        assert_eq!(lines.len(), 23);
        assert!(lines.iter().all(|line| line.chars().count() < 80), "{lines:?}");
        assert_eq!(lines[21], "and 9 more, which `-l` or a larger terminal shows");
        assert_eq!(fitted("a\nb\n", "last", (80, 24)), ["a", "b", "last"]);
    }
}
