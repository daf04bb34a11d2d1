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
use crate::variants::{self, COUNTING, NO_FILTER, PROTO_CHANGED};

const STREAMS: [usize; 5] = [10, 100, 1000, 10_000, 100_000];
const RANGES: [u32; 5] = [1, 10, 100, 1000, 10_000];

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
    let variants = [variants::named(NO_FILTER)?, variants::named(PROTO_CHANGED)?];
    let mut rows = Vec::new();
    for size in RANGES {
        say(&format!("growth: {size} trusted ranges"));
        let listeners = vec![variants[0].listener(site)?, variants[1].listener_with(site, &trusting(size))?];
        let counted = Counted::start(&site.envoy, bed::with_listeners(site, &variants, listeners)?).await?;
        bed::prove(&counted.envoy, &variants[1]).await?;
        let mut probes = [Probe::new(&counted, &variants[0]).await?, Probe::new(&counted, &variants[1]).await?];
        counted.switch_on().await?;
        let figures = rounds(&counted, &mut probes).await?;
        rows.push(Row { what: "trusted ranges".into(), size: size as usize, over: Spread::over(&figures[1], &figures[0]) });
    }
    Ok(rows)
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
