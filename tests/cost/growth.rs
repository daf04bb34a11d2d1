//! Whether a request costs more when there is more of something: streams in flight, ranges of trusted addresses.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::bed;
use crate::callgrind::Counted;
use crate::instructions::{Probe, rounds};
use crate::numbers::Spread;
use crate::say;
use crate::site::Site;
use crate::support::failure::Outcome;
use crate::ticks::Held;
use crate::variants::{self, COUNTING, NO_FILTER, PROTO_CHANGED, Variant};

const STREAMS: [usize; 5] = [10, 100, 1000, 10_000, 100_000];
/// With the names of their listeners.
const RANGES: [(u32, &str); 5] = [(1, "ranges-1"), (10, "ranges-10"), (100, "ranges-100"), (1000, "ranges-1000"), (10_000, "ranges-10000")];

/// One size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) size: usize,
    /// Instructions per request over no filter.
    pub(crate) over: Spread,
}

pub(crate) async fn measure(site: &Site) -> Outcome<Vec<Row>> {
    let mut rows = with_streams(site).await?;
    rows.extend(with_ranges(site).await?);
    Ok(rows)
}

/// The streams are counted by the same worker.
async fn with_streams(site: &Site) -> Outcome<Vec<Row>> {
    let variants = [variants::named(NO_FILTER)?, variants::named(COUNTING)?];
    let listeners = vec![variants[0].listener(site)?, bed::holding(variants[1].listener(site)?)?];
    let counted = Counted::start(&site.envoy, bed::with_listeners(site, &variants, listeners)?).await?;
    bed::prove(&counted.envoy, &variants[1]).await?;
    let mut held = Held::new(counted.envoy.address(COUNTING).await?);
    let mut rows = Vec::new();
    for size in STREAMS {
        say(&format!("growth: {size} streams in flight"));
        held.grow(size).await?;
        held.are_in_flight(&counted, &variants[1]).await?;
        let mut probes = [Probe::new(&counted, &variants[0]).await?, Probe::new(&counted, &variants[1]).await?];
        counted.switch_on().await?;
        let figures = rounds(&counted, &mut probes).await?;
        counted.switch_off().await?;
        rows.push(Row { what: "streams in flight".into(), size, over: Spread::over(&figures[1], &figures[0]) });
    }
    Ok(rows)
}

/// The peer is in none of the ranges but the last.
async fn with_ranges(site: &Site) -> Outcome<Vec<Row>> {
    say("growth: trusted ranges");
    let base = variants::named(NO_FILTER)?;
    let variants = RANGES.map(|(_, name)| variants::named(PROTO_CHANGED).map(|variant| variant.called(name)));
    let variants = variants.into_iter().collect::<Outcome<Vec<Variant>>>()?;
    let mut listeners = vec![base.listener(site)?];
    for (variant, (ranges, _)) in variants.iter().zip(RANGES) {
        listeners.push(variant.listener_with(site, &trusting(ranges))?);
    }
    let counted = Counted::start(&site.envoy, bed::with_listeners(site, &variants, listeners)?).await?;
    let mut probes = vec![Probe::new(&counted, &base).await?];
    for variant in &variants {
        bed::prove(&counted.envoy, variant).await?;
        probes.push(Probe::new(&counted, variant).await?);
    }
    counted.switch_on().await?;
    let figures = rounds(&counted, &mut probes).await?;
    let row = |((size, _), own): ((u32, &str), &Vec<f64>)| {
        let over = Spread::over(own, &figures[0]);
        Row { what: "trusted ranges".into(), size: size as usize, over }
    };
    Ok(RANGES.into_iter().zip(&figures[1..]).map(row).collect())
}

fn trusting(ranges: u32) -> String {
    let other = |index: u32| format!("{}/24", Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + (index << 9)));
    let peers: Vec<String> = (0..ranges - 1).map(other).chain(["127.0.0.0/8".into()]).collect();
    format!("{{forwarded_proto: {{presets: [aws_alb], trust: {{peers: [{}]}}}}}}", peers.join(", "))
}

pub(crate) fn table(rows: &[Row]) -> String {
    let mut table = String::from("| what grows | size | instructions per request over no filter |\n|---|--:|--:|\n");
    for row in rows {
        let _ = writeln!(table, "| {} | {} | {} |", row.what, row.size, row.over.in_thousands());
    }
    table
}
