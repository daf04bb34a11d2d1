//! Instructions per request: sequential requests on one connection, variant after variant in one Envoy with one worker, in several rounds.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::callgrind::Counted;
use crate::numbers::Spread;
use crate::say;
use crate::site::Site;
use crate::support::admin_cluster::admin_cluster;
use crate::support::bootstrap::Bootstrap;
use crate::support::envoy::Envoy;
use crate::support::failure::{Context as _, Outcome, ensure, ensure_eq};
use crate::support::h1::{Client, Request, once};
use crate::variants::{Around, LUA_EQUAL, Variant};

const WARM_UP: usize = 300;
/// The first is not so steady.
const ROUNDS: usize = 7;
const REQUESTS: usize = 200;
const BEGUN: &str = "wasmcustom.laststream_streams_begun_gateway_total";

/// What was counted of one variant, for one request.
#[derive(Debug, Clone, Serialize, Deserialize)]
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
            rows.extend(in_one_envoy(site, &together).await?);
        }
    }
    Ok(rows)
}

async fn in_one_envoy(site: &Site, variants: &[Variant]) -> Outcome<Vec<Row>> {
    say(&format!("instructions: {}", variants.iter().map(|variant| variant.name).collect::<Vec<_>>().join(", ")));
    let counted = Counted::start(&site.envoy, bootstrap(site, variants)?).await?;
    if variants[0].around == Around::Drain {
        drain(&counted.envoy).await?;
    }
    let mut clients = Vec::new();
    for variant in variants {
        does_its_work(&counted.envoy, variant).await.with_context(|| variant.name)?;
        let mut client = Client::connect(counted.envoy.address(variant.name).await?).await?;
        ask(&mut client, &variant.request("/"), WARM_UP).await?;
        clients.push(client);
    }
    let mut rounds = vec![Vec::new(); variants.len()];
    for _ in 0..ROUNDS {
        for ((variant, client), figures) in variants.iter().zip(&mut clients).zip(&mut rounds) {
            let instructions = counted.count(ask(client, &variant.request("/"), REQUESTS)).await?;
            figures.push(instructions as f64 / REQUESTS as f64);
        }
    }
    let base = variants.iter().position(Variant::is_base).context("nothing to compare with")?;
    let row = |(variant, figures): (&Variant, &Vec<f64>)| {
        let over = figures.iter().zip(&rounds[base]).map(|(figure, base)| figure - base);
        let (name, title) = (variant.name.into(), variant.title.into());
        Row { name, title, total: Spread::of(figures.iter().copied()), over: Spread::of(over) }
    };
    Ok(variants.iter().zip(&rounds).map(row).collect())
}

fn bootstrap(site: &Site, variants: &[Variant]) -> Outcome<Value> {
    let mut listeners = variants.iter().map(|variant| variant.listener(site)).collect::<Outcome<Vec<Value>>>()?;
    let mut bootstrap = Bootstrap::new().cluster(admin_cluster("admin"));
    if variants[0].around != Around::Nothing {
        let mut gate = variants[0].rendered(site)?["static_resources"]["listeners"][1].take();
        gate["address"]["socket_address"]["port_value"] = json!(0);
        listeners.push(gate);
    }
    bootstrap = bootstrap.with("/static_resources/listeners", json!(listeners));
    Ok(bootstrap.build())
}

async fn drain(envoy: &Envoy) -> Outcome {
    once(envoy.address("gate").await?, &Request::post("/drain", "")).await?.expect(202)?;
    let status = once(envoy.address("gate").await?, &Request::get("/status")).await?.expect(200)?.json()?;
    ensure_eq!(status["state"].as_str(), Some("draining"), "the gate");
    Ok(())
}

/// A filter that failed to load may let requests pass, and would be cheap.
async fn does_its_work(envoy: &Envoy, variant: &Variant) -> Outcome {
    let before = envoy.stat(BEGUN).await?.unwrap_or_default();
    let answer = once(envoy.address(variant.name).await?, &variant.request("/seen")).await?.expect(200)?;
    ensure_eq!(answer.header("x-seen").as_deref(), Some(variant.seen), "x-forwarded-proto at the app");
    let counted = envoy.stat(BEGUN).await?.unwrap_or_default() - before;
    ensure_eq!(counted, u64::from(variant.counts), "counted requests");
    ensure!(!envoy.log_contains("Failed to load"), "{}", envoy.tail());
    Ok(())
}

async fn ask(client: &mut Client, request: &Request, times: usize) -> Outcome {
    for _ in 0..times {
        client.request(request).await?.expect(200)?;
    }
    Ok(())
}

pub(crate) fn table(rows: &[Row]) -> String {
    let lua = rows.iter().find(|row| row.name == LUA_EQUAL).map(|row| row.over.middle);
    let mut table = String::from("| variant | instructions | over no filter | × equal-work Lua |\n|---|--:|--:|--:|\n");
    for row in rows {
        let ratio = lua.map(|lua| format!("{:.2}", row.over.middle / lua)).unwrap_or_default();
        let (total, over, around) = (row.total.middle / 1000.0, row.over.middle / 1000.0, row.over.around() / 1000.0);
        table.push_str(&format!("| {} | {total:.1}k | {over:+.1}k ± {around:.1}k | {ratio} |\n", row.title));
    }
    table
}
