//! CPU per request, requests per second, and latency at a fixed load. The machine is shared, so
//! each figure is a multiple of no filter's in the same round. Also the gate's latency while a
//! worker of the same Envoy is fully loaded.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::bed::{self, quietly};
use crate::flood::{Ask, flat_out, flat_out_while, now_and_then, paced, quantile};
use crate::numbers::{self, Spread};
use crate::site::Site;
use crate::variants::{self, GATE_COUNTING, GATE_NO_FILTER, Variant};
use kit::prelude::*;

const ROUNDS: usize = 9;
const CONNECTIONS: usize = 4;
const FLAT_OUT: Duration = Duration::from_millis(1000);
const PACED: Duration = Duration::from_millis(1000);
const PER_SECOND: u32 = 1000;
/// The pause between two requests to the gate.
const PAUSE: Duration = Duration::from_millis(7);
/// Ticks of the kernel's clock in `/proc/PID/stat`, the same on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// The figures of one variant; multiples are of no filter's in the same round.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) title: String,
    /// Microseconds of Envoy's user CPU per request.
    pub(crate) user_cpu: Spread,
    /// The same over no filter.
    pub(crate) user_cpu_over: Spread,
    pub(crate) per_second: Spread,
    pub(crate) median: Spread,
    pub(crate) p99: Spread,
}

/// Latencies of the gate's `/status`, in microseconds.
#[derive(Serialize)]
pub(crate) struct Gate {
    pub(crate) calm: Spread,
    /// While the counting listener is fully loaded.
    pub(crate) loaded: Spread,
    /// The same at the 99th percentile.
    pub(crate) loaded_p99: Spread,
    /// The same of a listener without any filter: the machine's own share.
    pub(crate) plain_p99: Spread,
    /// The gate's p99 over that, round by round.
    pub(crate) over_plain: Spread,
}

#[derive(Clone, Copy, Default)]
struct Figures {
    user_cpu: f64,
    per_second: f64,
    median: f64,
    p99: f64,
}

/// Measures the variants without a gate beside them, because here the cost of a tick is lost in the
/// noise.
pub(crate) async fn measure(site: &Site, variants: &[Variant]) -> Outcome<Vec<Row>> {
    let variants: Vec<Variant> =
        variants.iter().filter(|variant| !variant.beside_gate).copied().collect();
    let Some(base) = variants.iter().position(Variant::is_base) else { return Ok(Vec::new()) };
    let envoy =
        Envoy::start(&site.envoy, bed::bootstrap(site, &variants)?.build(), quietly(1)).await?;
    let mut figures = vec![Vec::new(); variants.len()];
    for round in 0..=ROUNDS {
        say(&format!("latency: round {round} of {ROUNDS}"));
        for (variant, figures) in variants.iter().zip(&mut figures) {
            if round == 0 {
                bed::prove(&envoy, variant).await?;
            }
            let (ask, pid) = (variant.ask(&envoy).await?, envoy.pid());
            let seen = tokio::task::spawn_blocking(move || load(&ask, pid))
                .await
                .context("the load")??;
            if round > 0 {
                figures.push(seen); // the first only warms up
            }
        }
    }
    Ok(variants
        .iter()
        .zip(&figures)
        .map(|(variant, own)| row(variant, own, &figures[base]))
        .collect())
}

fn load(ask: &Ask, pid: u32) -> Outcome<Figures> {
    let before = user_cpu(pid)?;
    let requests = flat_out(ask, CONNECTIONS, FLAT_OUT)? as f64;
    let user_cpu = (user_cpu(pid)? - before) / requests * 1e6;
    let times = paced(ask, CONNECTIONS, PER_SECOND, PACED)?;
    Ok(Figures {
        user_cpu,
        per_second: requests / FLAT_OUT.as_secs_f64(),
        median: quantile(&times, 0.5),
        p99: quantile(&times, 0.99),
    })
}

fn row(variant: &Variant, own: &[Figures], base: &[Figures]) -> Row {
    let of = |figures: &[Figures], what: fn(&Figures) -> f64| {
        figures.iter().map(what).collect::<Vec<f64>>()
    };
    let times = |what: fn(&Figures) -> f64| Spread::times(&of(own, what), &of(base, what));
    Row {
        name: variant.name.into(),
        title: variant.title(),
        user_cpu: Spread::of(of(own, |figures| figures.user_cpu)),
        user_cpu_over: Spread::over(
            &of(own, |figures| figures.user_cpu),
            &of(base, |figures| figures.user_cpu),
        ),
        per_second: times(|figures| figures.per_second),
        median: times(|figures| figures.median),
        p99: times(|figures| figures.p99),
    }
}

/// The user CPU time of a process, in seconds.
fn user_cpu(pid: u32) -> Outcome<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("Envoy's CPU time")?;
    // The name in brackets may contain anything; the time is the 12th field behind it.
    let ticks = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().nth(11))
        .context("no CPU time")?;
    Ok(ticks.parse::<f64>()? / TICKS_PER_SECOND)
}

/// Measures the gate's latency in an Envoy with one worker.
pub(crate) async fn measure_gate(site: &Site) -> Outcome<Gate> {
    say("latency: the gate");
    let variants = variants::chosen(&[GATE_NO_FILTER, GATE_COUNTING], site.version)?;
    ensure!(variants[0].is_base() && variants[1].counts(), "the variants are in another order");
    let envoy =
        Envoy::start(&site.envoy, bed::bootstrap(site, &variants)?.build(), quietly(1)).await?;
    bed::prove(&envoy, &variants[1]).await?;
    let status = Request::get("/status").host("localhost").bytes();
    let gate = Ask { to: envoy.address("gate").await?, request: status, end: b"}" };
    let (plain, load) = (variants[0].ask(&envoy).await?, variants[1].ask(&envoy).await?);
    let measured = move || {
        let mut rounds = [const { Vec::new() }; 4];
        for _ in 0..ROUNDS {
            let calm = now_and_then(&gate, PAUSE, FLAT_OUT)?;
            let loaded = under(&load, || now_and_then(&gate, PAUSE, FLAT_OUT))?;
            let plain = under(&load, || now_and_then(&plain, PAUSE, FLAT_OUT))?;
            rounds[0].push(quantile(&calm, 0.5));
            rounds[1].push(quantile(&loaded, 0.5));
            rounds[2].push(quantile(&loaded, 0.99));
            rounds[3].push(quantile(&plain, 0.99));
        }
        let over_plain = Spread::over(&rounds[2], &rounds[3]);
        let [calm, loaded, loaded_p99, plain_p99] = rounds.map(Spread::of);
        Ok(Gate { calm, loaded, loaded_p99, plain_p99, over_plain })
    };
    tokio::task::spawn_blocking(measured).await.context("the load")?
}

/// Runs `work` under full load.
fn under<T>(load: &Ask, work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running =
            scope.spawn(|| flat_out_while(load, CONNECTIONS, || !stop.load(Ordering::Relaxed)));
        let done = work();
        stop.store(true, Ordering::Relaxed);
        running.join().map_err(|_| kit::Error::msg("the load died"))??;
        done
    })
}

pub(crate) fn table(rows: &[Row]) -> String {
    let titles = "variant | user CPU per request, µs | over no filter, µs | requests per second | \
        p50 | p99";
    let cells = |row: &Row| {
        let (cpu, over) = (row.user_cpu.with_spread(1), row.user_cpu_over.with_spread(1));
        let [rate, median, p99] = [row.per_second, row.median, row.p99]
            .map(|times| format!("× {}", times.with_spread(2)));
        vec![row.title.clone(), cpu, over, rate, median, p99]
    };
    numbers::table(titles, rows.iter().map(cells))
}

pub(crate) fn about_gate(gate: &Gate) -> String {
    let millis = |spread: Spread| {
        format!("{:.2} ± {:.2} ms", spread.middle / 1000.0, (spread.high - spread.low) / 2000.0)
    };
    let Gate { calm, loaded, loaded_p99, plain_p99, over_plain } = *gate;
    format!(
        "| `GET /status` | |\n|---|--:|\n| nothing else to do, median | {} |\n\
         | the same worker has all the requests it can take, median | {} |\n\
         | the same, p99 | {} |\n| a listener without any filter there, p99 | {} |\n\
         | the gate over that | {} |\n",
        millis(calm),
        millis(loaded),
        millis(loaded_p99),
        millis(plain_p99),
        millis(over_plain)
    )
}
