//! The cost of the gate's ticks, idle and draining, with few and with many streams in flight.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bed;
use crate::callgrind::Counted;
use crate::held::{self, Held};
use crate::numbers::{self, Spread};
use crate::site::Site;
use crate::variants::{self, COUNTING, DRAIN_COUNTING, GATE_COUNTING, Variant};
use kit::{Outcome, say};

const STREAMS: [usize; 3] = [0, 100, 10_000];
const ROUNDS: usize = 3;
const LOOK: Duration = Duration::from_secs(2);

/// The figures of one state of the gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) title: String,
    pub(crate) streams: usize,
    /// Instructions per second, of all threads, without requests.
    pub(crate) per_second: Spread,
}

pub(crate) async fn measure(site: &Site) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, title) in [
        (COUNTING, "no gate"),
        (GATE_COUNTING, "a gate, idle"),
        (DRAIN_COUNTING, "a gate, draining"),
    ] {
        rows.extend(in_one_envoy(site, &variants::named(name)?, title).await?);
    }
    Ok(rows)
}

async fn in_one_envoy(site: &Site, variant: &Variant, title: &str) -> Outcome<Vec<Row>> {
    let listener = held::holding(variant.listener(site)?)?;
    let counted =
        Counted::start(&site.envoy, bed::with_listeners(site, &[*variant], vec![listener])?)
            .await?;
    bed::prove(&counted.envoy, variant).await?;
    bed::begin_drain_if_needed(&counted.envoy, variant.around).await?;
    let mut held = Held::new(counted.envoy.address(variant.name).await?);
    let mut rows = Vec::new();
    for streams in STREAMS {
        say(&format!("ticks: {title}, {streams} streams"));
        held.grow(streams).await?;
        held.are_in_flight(&counted.envoy, variant).await?;
        counted.switch_on().await?;
        counted.count_idle(LOOK).await?; // the first count warms up
        let mut figures = Vec::new();
        for _ in 0..ROUNDS {
            let idle = counted.count_idle(LOOK).await?;
            figures.push(idle.all as f64 / idle.took.as_secs_f64());
        }
        counted.switch_off().await?;
        rows.push(Row { title: title.into(), streams, per_second: Spread::of(figures) });
    }
    Ok(rows)
}

pub(crate) fn table(rows: &[Row]) -> String {
    let cells =
        |row: &Row| vec![row.title.clone(), row.streams.to_string(), row.per_second.in_thousands()];
    let titles = "state | streams in flight | instructions per second";
    numbers::table(titles, rows.iter().map(cells))
}
