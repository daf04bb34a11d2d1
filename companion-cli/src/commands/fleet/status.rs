//! `laststream status` over many pods.

use std::time::Duration;

use laststream::fleet::events::Events;
use laststream::fleet::table::{self, Width};
use laststream::fleet::{Cluster, FleetError, Gates, Manner, PodSight, Survey, summary};

use super::args::FleetArgs;
use super::{block_on, ending};
use crate::commands::exit::Exit;
use crate::commands::output::FleetOutput;
use crate::commands::printer::Printer;
use crate::commands::screen::{Screen, can_redraw};

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
        let mut screen = Screen::new("`-l` or a larger terminal");
        let mut has_answered = false;
        loop {
            let survey = wish.fleet.survey(&cluster, manner).await;
            let exit = match survey {
                Ok(survey) => {
                    has_answered = true;
                    show(wish, &survey, &mut screen, printer);
                    let events = write_events(&cluster, &mut events, &survey).await;
                    if let Err(error) = events {
                        if wish.watch.is_none() {
                            return Err(error);
                        }
                        printer.warning(&error);
                        screen.forget();
                    }
                    ending(&survey, printer)
                }
                Err(error) if wish.watch.is_none() || error.ends_watch(has_answered) => {
                    return Err(error);
                }
                Err(error) => {
                    printer.warning(&error);
                    Exit::Found
                }
            };
            let Some(interval) = wish.watch else { return Ok(exit) };
            if exit != Exit::Fine {
                screen.forget(); // a message stands below the table
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

fn show(wish: &Wish<'_>, survey: &Survey, screen: &mut Screen, printer: &Printer) {
    let sights: Vec<PodSight> =
        survey.pods.iter().map(|(pod, answer)| PodSight::of(pod, answer)).collect();
    if wish.output == FleetOutput::Json {
        return printer.json(&json(&sights, survey.without_proxy));
    }
    let width =
        Width { namespaces: wish.fleet.is_everywhere(), wide: wish.output == FleetOutput::Wide };
    let (text, last) = (table::pods(&sights, width), last_line(&sights, survey.without_proxy));
    if wish.watch.is_some() && can_redraw(&std::io::stdout()) {
        return screen.draw(&text, Some(&last), printer);
    }
    if !sights.is_empty() {
        printer.stdout(&text);
    }
    printer.status_line(&last);
}

fn last_line(sights: &[PodSight], without_proxy: usize) -> String {
    let summary = summary(sights);
    if without_proxy == 0 { summary } else { format!("{summary}; {without_proxy} without a proxy") }
}

fn json(sights: &[PodSight], without_proxy: usize) -> String {
    let body = serde_json::json!({ "pods": sights, "without_proxy": without_proxy });
    format!("{body:#}")
}
