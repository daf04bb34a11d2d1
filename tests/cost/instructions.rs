//! Instructions per request: sequential requests on one connection, variant after variant in one Envoy with one worker, round by round.

use std::fmt::Write as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bed;
use crate::callgrind::Counted;
use crate::numbers::{Spread, thousands};
use crate::say;
use crate::site::Site;
use crate::support::failure::{Context as _, Outcome};
use crate::support::h1::{Client, Request};
use crate::variants::{Around, LUA_EQUAL, Variant};

const WARM_UP: usize = 300;
const ROUNDS: usize = 7;
const REQUESTS: usize = 200;
const IDLE: Duration = Duration::from_secs(2);

/// What was counted of one variant, for one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) total: Spread,
    /// Over no filter in the same Envoy, round by round.
    pub(crate) over: Spread,
}

/// In the order of the variants.
pub(crate) async fn measure(site: &Site, variants: &[Variant]) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for around in [Around::Nothing, Around::Gate, Around::Drain] {
        let together: Vec<Variant> = variants.iter().filter(|variant| variant.around == around).copied().collect();
        if !together.is_empty() {
            rows.extend(in_one_envoy(site, around, &together).await?);
        }
    }
    Ok(rows)
}

async fn in_one_envoy(site: &Site, around: Around, variants: &[Variant]) -> Outcome<Vec<Row>> {
    say(&format!("instructions: {}", variants.iter().map(|variant| variant.name).collect::<Vec<_>>().join(", ")));
    let counted = Counted::start(&site.envoy, bed::bootstrap(site, variants)?).await?;
    bed::settle(&counted.envoy, around).await?;
    let mut probes = Vec::new();
    for variant in variants {
        bed::prove(&counted.envoy, variant).await?;
        probes.push(Probe::new(&counted, variant).await?);
    }
    counted.switch_on().await?;
    let figures = rounds(&counted, &mut probes).await?;
    let base = variants.iter().position(Variant::is_base).context("nothing to compare with")?;
    let row = |(variant, own): (&Variant, &Vec<f64>)| {
        let (name, title) = (variant.name.into(), variant.title.into());
        Row { name, title, total: Spread::of(own.iter().copied()), over: Spread::over(own, &figures[base]) }
    };
    Ok(variants.iter().zip(&figures).map(row).collect())
}

/// A connection to a listener, and what is asked there.
pub(crate) struct Probe {
    client: Client,
    request: Request,
}

impl Probe {
    pub(crate) async fn new(counted: &Counted, variant: &Variant) -> Outcome<Self> {
        let client = Client::connect(counted.envoy.address(variant.name).await?).await?;
        Ok(Self { client, request: variant.request("/") })
    }
}

/// Instructions per request of each probe in each round, when all are warm.
pub(crate) async fn rounds(counted: &Counted, probes: &mut [Probe]) -> Outcome<Vec<Vec<f64>>> {
    for probe in &mut *probes {
        bed::ask(&mut probe.client, &probe.request, WARM_UP).await?;
    }
    // A gate ticks, however many requests come in between.
    let idle = counted.count_idle(IDLE).await?;
    let per_second = idle.busiest as f64 / idle.took.as_secs_f64();
    let mut figures = vec![Vec::new(); probes.len()];
    for _ in 0..ROUNDS {
        for (probe, figures) in probes.iter_mut().zip(&mut figures) {
            let count = counted.count(bed::ask(&mut probe.client, &probe.request, REQUESTS)).await?;
            figures.push((count.busiest as f64 - per_second * count.took.as_secs_f64()) / REQUESTS as f64);
        }
    }
    Ok(figures)
}

pub(crate) fn table(rows: &[Row]) -> String {
    let lua = rows.iter().find(|row| row.name == LUA_EQUAL).map(|row| row.over.middle);
    let mut table = String::from("| variant | instructions per request | over no filter | × equal-work Lua |\n|---|--:|--:|--:|\n");
    for row in rows {
        let ratio = lua.map(|lua| format!("{:.2}", row.over.middle / lua)).unwrap_or_default();
        let _ = writeln!(table, "| {} | {} | {} | {ratio} |", row.title, thousands(row.total.middle), row.over.in_thousands());
    }
    table
}
