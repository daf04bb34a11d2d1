//! The fixed cost of the filter: memory for each worker and each plugin, and the time to load the
//! module and to configure a plugin.
//!
//! The figures are differences between Envoys that differ in one number: of workers, or of
//! listeners, each with a separate plugin in the same VM. The same difference without a filter is
//! subtracted.

use std::fs;

use serde::Serialize;

use crate::bed::{self, quietly};
use crate::flood::flat_out;
use crate::numbers::{self, Spread};
use crate::site::Site;
use crate::variants::{
    COUNTING, GATE_BY_ENVOY, GATE_COUNTING, LUA_PORT, NO_FILTER, PORT_CHANGED_WASM, Variant,
};
use kit::prelude::*;

const ROUNDS: usize = 5;
const VARIANTS: [&str; 6] =
    [NO_FILTER, LUA_PORT, COUNTING, PORT_CHANGED_WASM, GATE_COUNTING, GATE_BY_ENVOY];
const MANY_WORKERS: u32 = 9;
const MANY_PLUGINS: usize = 33;
/// A day in milliseconds.
const DAY: u32 = 86_400_000;

/// The figures of one variant, over no filter.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) title: String,
    /// Kilobytes with one worker and one plugin, over no filter.
    pub(crate) first: Spread,
    /// Kilobytes for each further worker.
    pub(crate) worker: Spread,
    /// Kilobytes for each further plugin.
    pub(crate) plugin: Spread,
    /// Milliseconds by which Envoy starts later, because it reads, compiles and configures the
    /// module.
    pub(crate) load: Spread,
    /// Milliseconds for each further plugin, listener included.
    pub(crate) configure: Spread,
}

#[derive(Clone, Copy, Default)]
struct Taken {
    kilobytes: f64,
    millis: f64,
}

/// One round of one variant.
#[derive(Clone, Copy)]
struct Round {
    single: Taken,
    workers: Taken,
    plugins: Taken,
}

pub(crate) async fn measure(site: &Site, variants: &[Variant]) -> Outcome<Vec<Row>> {
    let variants: Vec<Variant> =
        variants.iter().filter(|variant| VARIANTS.contains(&variant.name)).copied().collect();
    let Some(base) = variants.iter().position(Variant::is_base) else { return Ok(Vec::new()) };
    let mut rounds = vec![Vec::new(); variants.len()];
    for round in 1..=ROUNDS {
        say(&format!("memory: round {round} of {ROUNDS}"));
        for (variant, rounds) in variants.iter().zip(&mut rounds) {
            rounds.push(Round {
                single: taken(site, variant, 1, 1).await?,
                workers: taken(site, variant, MANY_WORKERS, 1).await?,
                plugins: taken(site, variant, 1, MANY_PLUGINS).await?,
            });
        }
    }
    Ok(variants
        .iter()
        .zip(&rounds)
        .map(|(variant, own)| row(variant, own, &rounds[base]))
        .collect())
}

fn row(variant: &Variant, own: &[Round], base: &[Round]) -> Row {
    let (workers, plugins) = (f64::from(MANY_WORKERS - 1), (MANY_PLUGINS - 1) as f64);
    let over = |what: &dyn Fn(&Round) -> f64| {
        Spread::of(own.iter().zip(base).map(|(own, base)| what(own) - what(base)))
    };
    Row {
        name: variant.name.into(),
        title: variant.title(),
        first: over(&|round| round.single.kilobytes),
        worker: over(&|round| (round.workers.kilobytes - round.single.kilobytes) / workers),
        plugin: over(&|round| (round.plugins.kilobytes - round.single.kilobytes) / plugins),
        load: over(&|round| round.single.millis),
        configure: over(&|round| (round.plugins.millis - round.single.millis) / plugins),
    }
}

/// Envoy's memory after each worker has had requests, and the time that its start took.
async fn taken(site: &Site, variant: &Variant, workers: u32, plugins: usize) -> Outcome<Taken> {
    let listeners = (0..plugins)
        .map(|index| numbered(variant.listener(site)?, index))
        .collect::<Outcome<Vec<Value>>>()?;
    let bootstrap = bed::with_listeners(site, &[*variant], listeners)?;
    let options = Options { component_log_level: "main:info".into(), ..quietly(workers) };
    let envoy = Envoy::start(&site.envoy, bootstrap.build(), options).await?;
    bed::prove(&envoy, variant).await?;
    let ask = variant.ask(&envoy).await?;
    let time = Duration::from_millis(200);
    tokio::task::spawn_blocking(move || flat_out(&ask, 4 * workers as usize, time))
        .await
        .context("the load")??;
    Ok(Taken { kilobytes: anonymous(envoy.pid())?, millis: starting(&envoy.log())? })
}

/// A listener of many. The first keeps its name; each has a plugin of another name, and therefore a
/// root context of its own.
fn numbered(mut listener: Value, index: usize) -> Outcome<Value> {
    if index > 0 {
        listener["name"] =
            json!(format!("{}-{index}", listener["name"].as_str().unwrap_or_default()));
    }
    let filters = listener["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"]
        .as_array_mut()
        .context("filters")?;
    for plugin in filters.iter_mut().filter_map(|filter| filter.pointer_mut("/typed_config/config"))
    {
        plugin["name"] = json!(format!("laststream-{index}"));
    }
    Ok(listener)
}

/// Milliseconds between two lines of the log: `[2026-11-21 12:00:53.388][…`.
fn starting(log: &str) -> Outcome<f64> {
    let at = |words: &str| {
        let line = log
            .lines()
            .find(|line| line.contains(words))
            .with_context(|| format!("no line says {words:?}"))?;
        let clock = line.get(12..24).with_context(|| line.to_owned())?;
        let parts = clock
            .split([':', '.'])
            .map(str::parse)
            .collect::<Result<Vec<u32>, _>>()
            .with_context(|| line.to_owned())?;
        let [hours, minutes, seconds, millis] = parts[..] else { bail!("no time: {line}") };
        Ok(((hours * 60 + minutes) * 60 + seconds) * 1000 + millis)
    };
    let (begun, done) = (at("initializing epoch")?, at("starting main dispatch loop")?);
    Ok(f64::from((done + DAY - begun) % DAY)) // midnight may have passed in between
}

/// The process's anonymous memory in kilobytes, without mapped files.
fn anonymous(pid: u32) -> Outcome<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("Envoy's memory")?;
    let line =
        status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("no RssAnon")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

pub(crate) fn table(rows: &[Row]) -> String {
    let titles = "variant | first worker, kB | each further worker, kB | each further plugin, kB | \
        loading, ms | configuring one more, ms";
    let cells = |row: &Row| {
        let [first, worker, plugin, load] =
            [row.first, row.worker, row.plugin, row.load].map(|spread| spread.with_spread(0));
        vec![row.title.clone(), first, worker, plugin, load, row.configure.with_spread(2)]
    };
    numbers::table(titles, rows.iter().filter(|row| row.name != NO_FILTER).map(cells))
}
