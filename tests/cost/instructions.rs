//! Instructions per request: sequential requests on one connection, variant after variant in one
//! Envoy with one worker, round by round.

use serde::Serialize;
use tokio::time::sleep;

use crate::bed;
use crate::callgrind::Counted;
use crate::numbers::{self, Spread, thousands};
use crate::site::Site;
use crate::variants::Variant;
use kit::prelude::*;

const WARM_UP: usize = 300;
const ROUNDS: usize = 7;
const REQUESTS: usize = 200;
const IDLE: Duration = Duration::from_secs(2);
/// For this time, the streams of a new counter check the latch, which costs a little.
const NEW: Duration = Duration::from_secs(16);

/// Instructions of one variant for one request.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) total: Spread,
    /// Over no filter in the same Envoy, round by round.
    pub(crate) over: Spread,
    /// The same as a multiple of the Lua that does equal work, if that was counted, too.
    pub(crate) lua: Option<f64>,
}

/// Measures the variants, those beside a gate in a separate Envoy. Their rows are the last.
pub(crate) async fn measure(site: &Site, variants: &[Variant]) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for beside_gate in [false, true] {
        let together: Vec<Variant> =
            variants.iter().filter(|variant| variant.beside_gate == beside_gate).copied().collect();
        if !together.is_empty() {
            rows.extend(in_one_envoy(site, &together).await?);
        }
    }
    let over = |name: &str, rows: &[Row]| {
        rows.iter().find(|row| row.name == name).map(|row| row.over.middle)
    };
    for variant in variants {
        let lua = over(variant.lua, &rows);
        let own = rows.iter_mut().filter(|row| row.name == variant.name);
        own.for_each(|row| row.lua = lua.map(|lua| row.over.middle / lua));
    }
    Ok(rows)
}

async fn in_one_envoy(site: &Site, variants: &[Variant]) -> Outcome<Vec<Row>> {
    say(&format!(
        "instructions: {}",
        variants.iter().map(|variant| variant.name).collect::<Vec<_>>().join(", ")
    ));
    let counted = Counted::start(&site.envoy, bed::bootstrap(site, variants)?).await?;
    let mut probes = Vec::new();
    for variant in variants {
        bed::prove(&counted.envoy, variant).await?;
        probes.push(Probe::new(&counted, variant).await?);
    }
    counted.switch_on().await?;
    let figures = rounds(&counted, &mut probes).await?;
    let base = variants.iter().position(Variant::is_base).context("nothing to compare with")?;
    let row = |(variant, own): (&Variant, &Vec<f64>)| Row {
        name: variant.name.into(),
        title: variant.title(),
        total: Spread::of(own.iter().copied()),
        over: Spread::over(own, &figures[base]),
        lua: None,
    };
    Ok(variants.iter().zip(&figures).map(row).collect())
}

/// A connection to a listener, and the request for it.
struct Probe {
    client: Client,
    request: Request,
}

impl Probe {
    async fn new(counted: &Counted, variant: &Variant) -> Outcome<Self> {
        let client = Client::connect(counted.envoy.address(variant.name).await?).await?;
        Ok(Self { client, request: variant.request("/") })
    }
}

/// Instructions per request of each probe in each round, after a warm-up.
async fn rounds(counted: &Counted, probes: &mut [Probe]) -> Outcome<Vec<Vec<f64>>> {
    for probe in &mut *probes {
        bed::ask(&mut probe.client, &probe.request, WARM_UP).await?;
    }
    sleep(NEW).await;
    // A gate's ticks depend on time and not on requests, so their share is subtracted.
    let pause = async {
        sleep(IDLE).await;
        Ok(())
    };
    let idle = counted.count(pause).await?;
    let per_second = idle.busiest as f64 / idle.took.as_secs_f64();
    let mut figures = vec![Vec::new(); probes.len()];
    for _ in 0..ROUNDS {
        for (probe, figures) in probes.iter_mut().zip(&mut figures) {
            let count =
                counted.count(bed::ask(&mut probe.client, &probe.request, REQUESTS)).await?;
            figures.push(
                (count.busiest as f64 - per_second * count.took.as_secs_f64()) / REQUESTS as f64,
            );
        }
    }
    Ok(figures)
}

pub(crate) fn table(rows: &[Row]) -> String {
    let cells = |row: &Row| {
        let ratio = row.lua.map(|times| format!("{times:.2}")).unwrap_or_default();
        vec![row.title.clone(), thousands(row.total.middle), row.over.in_thousands(), ratio]
    };
    let titles = "variant | instructions per request | over no filter | × equal-work Lua";
    numbers::table(titles, rows.iter().map(cells))
}
