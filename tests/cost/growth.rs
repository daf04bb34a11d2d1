//! Whether a request costs more with more streams in flight, or with more ranges of trusted
//! addresses.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::bed;
use crate::callgrind::Counted;
use crate::held::{self, Held};
use crate::instructions::{Probe, rounds};
use crate::numbers::{self, Spread};
use crate::site::Site;
use crate::variants::{self, ALB_CHANGED, ALB_CHANGED_WASM, COUNTING, NO_FILTER, Variant};
use kit::{Outcome, say};

const STREAMS: [usize; 5] = [10, 100, 1000, 10_000, 100_000];
/// The number of ranges, the variant, and the name of its listener. Envoy's own matchers take up to
/// 1000 ranges; with more the module decides alone.
const RANGES: [(u32, &str, &str); 9] = [
    (1, ALB_CHANGED, "ranges-1"),
    (10, ALB_CHANGED, "ranges-10"),
    (100, ALB_CHANGED, "ranges-100"),
    (1000, ALB_CHANGED, "ranges-1000"),
    (1, ALB_CHANGED_WASM, "ranges-1-wasm"),
    (10, ALB_CHANGED_WASM, "ranges-10-wasm"),
    (100, ALB_CHANGED_WASM, "ranges-100-wasm"),
    (1000, ALB_CHANGED_WASM, "ranges-1000-wasm"),
    (10_000, ALB_CHANGED_WASM, "ranges-10000-wasm"),
];

/// The figures of one size.
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

/// Measures requests beside streams in flight, which the same worker counts.
async fn with_streams(site: &Site) -> Outcome<Vec<Row>> {
    let variants = [variants::named(NO_FILTER)?, variants::named(COUNTING)?];
    let listeners = vec![variants[0].listener(site)?, held::holding(variants[1].listener(site)?)?];
    let counted =
        Counted::start(&site.envoy, bed::with_listeners(site, &variants, listeners)?).await?;
    bed::prove(&counted.envoy, &variants[1]).await?;
    let mut held = Held::new(counted.envoy.address(COUNTING).await?);
    let mut rows = Vec::new();
    for size in STREAMS {
        say(&format!("growth: {size} streams in flight"));
        held.grow(size).await?;
        held.are_in_flight(&counted.envoy, &variants[1]).await?;
        let mut probes =
            [Probe::new(&counted, &variants[0]).await?, Probe::new(&counted, &variants[1]).await?];
        counted.switch_on().await?;
        let figures = rounds(&counted, &mut probes).await?;
        counted.switch_off().await?;
        rows.push(Row {
            what: "streams in flight".into(),
            size,
            over: Spread::over(&figures[1], &figures[0]),
        });
    }
    Ok(rows)
}

/// Measures requests with many trusted ranges, of which only the last has the peer.
async fn with_ranges(site: &Site) -> Outcome<Vec<Row>> {
    say("growth: trusted ranges");
    let base = variants::named(NO_FILTER)?;
    let variants = RANGES
        .map(|(_, variant, name)| variants::named(variant).map(|variant| variant.called(name)));
    let variants = variants.into_iter().collect::<Outcome<Vec<Variant>>>()?;
    let mut listeners = vec![base.listener(site)?];
    for (variant, (ranges, of, _)) in variants.iter().zip(RANGES) {
        listeners.push(variant.listener_with(site, &trusting(ranges, of == ALB_CHANGED_WASM))?);
    }
    let counted =
        Counted::start(&site.envoy, bed::with_listeners(site, &variants, listeners)?).await?;
    let mut probes = vec![Probe::new(&counted, &base).await?];
    for variant in &variants {
        bed::prove(&counted.envoy, variant).await?;
        probes.push(Probe::new(&counted, variant).await?);
    }
    counted.switch_on().await?;
    let figures = rounds(&counted, &mut probes).await?;
    let row = |((size, of, _), own): ((u32, &str, &str), &Vec<f64>)| {
        let over = Spread::over(own, &figures[0]);
        let what = if of == ALB_CHANGED_WASM { "trusted ranges, Wasm" } else { "trusted ranges" };
        Row { what: what.into(), size: size as usize, over }
    };
    Ok(RANGES.into_iter().zip(&figures[1..]).map(row).collect())
}

fn trusting(ranges: u32, wasm: bool) -> String {
    let other = |index: u32| {
        format!("{}/24", Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + (index << 9)))
    };
    let peers: Vec<String> = (0..ranges - 1).map(other).chain(["127.0.0.0/8".into()]).collect();
    let engine = if wasm { "wasm" } else { "native" };
    format!(
        "{{engine: {engine}, forwarded_proto: {{presets: [aws_alb], trust: {{peers: [{}]}}}}}}",
        peers.join(", ")
    )
}

pub(crate) fn table(rows: &[Row]) -> String {
    let cells = |row: &Row| vec![row.what.clone(), row.size.to_string(), row.over.in_thousands()];
    let titles = "what grows | size | instructions per request over no filter";
    numbers::table(titles, rows.iter().map(cells))
}
