//! M2: `x-forwarded-proto` through a real Istio gateway. The rows are the module's own, from the
//! tables under `tests/cases/forwarded_proto`: all rows about a gateway on plain http, with and
//! without `httpsRedirect`, and with no, one and two trusted hops.

mod rows;

use std::fmt::Display;
use std::time::Instant;

use laststream_filter::config;
use laststream_filter::config::wire::Fallback;

use super::stage::{BEGUN, Stage};
use crate::agent::{Agent, Proxy};
use crate::objects::{Given, objects};
use crate::seen::row;
use kit::forwarded_proto::listeners::{ROUTE, TLS_ONLY, TO_HTTP1, TO_HTTP2};
use kit::forwarded_proto::table::{Row, Section, Table};
use kit::prelude::*;

/// Names of listeners in the tables, each with the number of trusted hops that gives a gateway's
/// listener the same behaviour.
const EDGE: (&str, u32) = ("edge", 0);
const HOPS_1: (&str, u32) = ("hops1", 1);
const HOPS_2: (&str, u32) = ("hops2", 2);

pub(super) async fn edge() -> Outcome {
    all_rows("m2-edge", EDGE).await
}

pub(super) async fn one_hop() -> Outcome {
    all_rows("m2-hops1", HOPS_1).await
}

pub(super) async fn two_hops() -> Outcome {
    all_rows("m2-hops2", HOPS_2).await
}

async fn all_rows(name: &'static str, (setup, hops): (&str, u32)) -> Outcome {
    let table = Table::read()?;
    // A wrong key of the peer information cannot occur here: the filter that writes it is rendered
    // from the same policy.
    let is_here =
        |section: &&Section| section.setup == setup && !section.configuration.contains("peer_key");
    let mut sections: Vec<&Section> = table.sections.iter().filter(is_here).collect();
    // Sections with a saved header come last, so that the listener changes once.
    sections.sort_by_key(|section| section.configuration.contains("original_header"));
    let stage = Stage::new(name).await?;
    stage.apply(&all_objects(&stage)?).await?;
    let first = sections.first().context("no rows")?;
    stage.put(&policy(&stage, first)?).await?;
    let agent = gateway(&stage, hops).await?;
    let (mut requests, mut rows, mut mismatches) = (0, 0, Vec::new());
    for section in sections {
        stage.put(&policy(&stage, section)?).await?;
        taken(&agent, section).await?;
        taken_by_workers(&stage, &agent, section).await?;
        for case in section.rows.iter().filter(|case| !is_kept_in_silence(section, case)) {
            rows += 1;
            for &protocol in &case.over {
                let (sent, found) = patiently(|| rows::run(&stage, &agent, case, protocol)).await?;
                requests += sent;
                mismatches.extend(found);
            }
        }
    }
    ensure!(mismatches.is_empty(), "{} mismatches:\n{}", mismatches.len(), mismatches.join("\n"));
    stage.nothing_refused()?;
    let what = format!(
        "{rows} rows of the module's tables through an Istio gateway; trusted hops: {hops}; \
            `httpsRedirect` off and on"
    );
    row(
        "M2",
        what,
        format!(
            "{requests} requests over HTTP/1 and HTTP/2, every row as it says; the early mutation \
                is there where it must be"
        ),
    );
    Ok(())
}

/// Longer than any row takes, unless the machine stands still: then requests time out, and the row
/// says nothing.
const STANDSTILL: Duration = Duration::from_secs(10);

/// Runs a row again while the machine stood still in it.
async fn patiently<T>(row: impl AsyncFn() -> Outcome<T>) -> Outcome<T> {
    const TRIES: u32 = 3;
    for _ in 1..TRIES {
        let begun = Instant::now();
        let outcome = row().await;
        if begun.elapsed() < STANDSTILL {
            return outcome;
        }
    }
    row().await
}

/// Whether the row is skipped. Without a saved header, a request without `x-forwarded-proto` looks
/// like one with the scheme that Envoy wrote; the rendered listener always saves the header.
fn is_kept_in_silence(section: &Section, row: &Row) -> bool {
    let is_silent =
        !row.request.iter().any(|line| line.name.eq_ignore_ascii_case("x-forwarded-proto"));
    let is_kept = row.expected.as_ref().is_some_and(|expected| expected.verdict == "kept");
    section.configuration.contains("original_header") && is_silent && is_kept
}

async fn gateway(stage: &Stage, hops: u32) -> Outcome<Agent> {
    let topology = format!("gatewayTopology: {{numTrustedProxies: {hops}}}");
    let annotations: &[(&str, &str)] =
        if hops == 0 { &[] } else { &[("proxy.istio.io/config", &topology)] };
    stage.proxy(&Proxy { labels: &[("istio", stage.name)], annotations, ..Proxy::default() }).await
}

/// Objects for the hosts of the tables: one over HTTP/1 and one over HTTP/2 to the app, and one
/// that redirects to https.
fn all_objects(stage: &Stage) -> Outcome<Vec<Value>> {
    let hosts = [("to_http1", &TO_HTTP1), ("to_http2", &TO_HTTP2), ("tls_only", &TLS_ONLY)];
    let mut given: Vec<Given<'_>> = vec![("name", &stage.name), ("port", &stage.port)];
    given.extend(hosts.iter().map(|(name, host)| (*name, *host as &dyn Display)));
    let mut all = objects(include_str!("../objects/scheme.yaml"), &given)?;
    let apps = [
        (TO_HTTP1, "HTTP", stage.upstream.h1()),
        (TO_HTTP2, "HTTP2", stage.upstream.h2()),
        (TLS_ONLY, "HTTP", stage.upstream.h1()),
    ];
    for (host, protocol, address) in apps {
        let given: &[Given<'_>] = &[
            ("name", &stage.name),
            ("app", &host.replace('.', "-")),
            ("host", &host),
            ("protocol", &protocol),
            ("target", &address.port()),
            ("route", &ROUTE),
        ];
        all.extend(objects(include_str!("../objects/scheme_app.yaml"), given)?);
    }
    Ok(all)
}

fn policy(stage: &Stage, section: &Section) -> Outcome<String> {
    let configuration: Value =
        serde_json::from_str(&section.configuration).with_context(|| section.name.clone())?;
    Ok(stage.gateway_policy(&format!(
        "forwarded_proto: {}\ncount: {}\nengine: wasm\n",
        configuration["forwarded_proto"],
        marker(section)
    )))
}

/// A path that identifies the section in the proxy's configuration.
fn marker(section: &Section) -> Value {
    json!({ "exclude": { "paths": [{ "exact": format!("/{}", section.name) }] } })
}

/// Waits until the proxy has the module's configuration, and the listener with the early header
/// mutation if there must be one.
async fn taken(agent: &Agent, section: &Section) -> Outcome {
    let configuration = config::parse(section.configuration.as_bytes())
        .map_err(|refused| Error::msg(refused.to_string()))?;
    let policy = configuration.forwarded_proto().context("a policy")?;
    let keeps = [policy.fallback, policy.silent].contains(&Fallback::Keep);
    let mutates = policy.looks_at_original() || !keeps;
    let look = async || {
        let modules = agent.dump("ecds_filters").await?.to_string();
        ensure!(
            modules.contains(&format!("/{}\\\"", section.name)),
            "the module does not have {} yet",
            section.name
        );
        let listeners = agent.active_listeners().await?;
        let found = listeners.contains("early_header_mutation_extensions");
        ensure_eq!(found, mutates, "the early mutation is there");
        Ok(())
    };
    wait_for(PATIENCE, &section.name, look).await
}

/// Waits until each worker has the configuration: it leaves requests for its own path uncounted. A
/// worker takes it a moment after the main thread, whose dump [`taken`] reads.
async fn taken_by_workers(stage: &Stage, agent: &Agent, section: &Section) -> Outcome {
    let request = Request::get(&format!("/{}", section.name)).host(TO_HTTP1);
    let look = async || {
        ensure_eq!(stage.counted(agent, BEGUN, &request).await?, 0, "streams begun");
        Ok(())
    };
    wait_for(PATIENCE, &format!("{} on each worker", section.name), look).await
}
