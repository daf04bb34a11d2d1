//! A worker stands still around the end of a stream: nothing gets out before the client can read
//! its whole response.

use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::bench::{Bench, COUNTERS, SOON};
use crate::cases::stage::routes;
use crate::lab::{Lab, cases};
use kit::bootstrap::filters::Wasm;
use kit::prelude::*;

cases! {
    a_response_that_a_blocked_worker_has_not_written_holds,
    so_it_does_where_envoy_alone_counts,
}

/// Envoy is not told to drain, because it would close the askers' connections.
const GATE: &str = r#""quiet_ms": 300, "deadline_ms": 90000, "begin": {"call": "nothing"}"#;

/// Another filter that blocks its worker: the callback in which it does, and whether it stands
/// behind the counter.
pub(super) const POSITIONS: [(&str, bool); 4] = [
    ("(func (export \"proxy_on_delete\") (param i32) (call $stand_still))", true),
    ("(func (export \"proxy_on_delete\") (param i32) (call $stand_still))", false),
    ("(func (export \"proxy_on_log\") (param i32) (call $stand_still))", true),
    (
        "(func (export \"proxy_on_response_headers\") (param i32 i32 i32) (result i32)
            (call $stand_still) (i32.const 0))",
        true,
    ),
];

/// A module whose one callback takes 6 s: less than the silence after which a counter is dead.
fn slow_module(callback: &str) -> Outcome<TempDir> {
    let text = format!(
        r#"(module
            (import "env" "proxy_get_current_time_nanoseconds"
                (func $read (param i32) (result i32)))
            (memory (export "memory") 1)
            (func (export "proxy_abi_version_0_2_1"))
            (func (export "malloc") (param i32) (result i32) (i32.const 1024))
            (func (export "proxy_on_context_create") (param i32 i32))
            (func $now (result i64)
                (drop (call $read (i32.const 8)))
                (i64.load (i32.const 8)))
            (func $stand_still (local $until i64)
                (local.set $until (i64.add (call $now) (i64.const 6000000000)))
                (loop $again
                    (br_if $again (i64.lt_u (call $now) (local.get $until)))))
            {callback})"#
    );
    let folder = TempDir::new().context("a folder for the slow filter")?;
    std::fs::write(folder.path().join("slow.wasm"), wat::parse_str(text)?)?;
    Ok(folder)
}

async fn a_response_that_a_blocked_worker_has_not_written_holds(lab: &Lab) -> Outcome {
    for (callback, is_behind) in POSITIONS {
        let place = if is_behind { "behind" } else { "in front of" };
        let counter = lab.stream("{}").filter();
        let held = holds(lab, callback, is_behind, Some(counter)).await;
        held.with_context(|| format!("{callback} {place} the counter"))?;
    }
    Ok(())
}

/// There is no counter, and so one position less.
async fn so_it_does_where_envoy_alone_counts(lab: &Lab) -> Outcome {
    for (callback, _) in POSITIONS.into_iter().filter(|(_, is_behind)| *is_behind) {
        holds(lab, callback, true, None).await.with_context(|| callback.to_owned())?;
    }
    Ok(())
}

/// A filter with such a module, and the module's folder.
pub(super) fn slow_filter(lab: &Lab, callback: &str) -> Outcome<(Value, TempDir)> {
    let folder = slow_module(callback)?;
    let module = &*folder.path().join("slow.wasm");
    let slow = Wasm { name: "slow", vm_id: "slow", module, ..lab.stream("") }.filter();
    Ok((slow, folder))
}

async fn holds(lab: &Lab, callback: &str, is_behind: bool, counter: Option<Value>) -> Outcome {
    let (slow, _folder) = slow_filter(lab, callback)?;
    let (count, word) = if counter.is_some() { ("filter", "exact") } else { ("envoy", "envoy") };
    let mut filters: Vec<Value> = counter.into_iter().chain([slow]).collect();
    if !is_behind {
        filters.reverse();
    }
    let main = filters.into_iter().fold(Hcm::new("main"), Hcm::filter);
    let gate = format!(r#"{{"count": "{count}", {GATE}}}"#);
    let bench = Bench::with(lab, &gate, routes(main)).await?;
    bench.until("counters", COUNTERS).await?;
    bench.until("count", word).await?;
    no_way_out_before_the_response(&bench, true).await
}

/// `keeps`: the gate keeps connections open.
pub(super) async fn no_way_out_before_the_response(bench: &Bench, keeps: bool) -> Outcome {
    let mut client = bench.held("a").await?;
    bench.post("/drain").await?.expect(202)?;
    // Enough of them to reach the worker that goes on.
    let mut askers = JoinSet::new();
    for _ in 0..12 {
        askers.spawn(first_way_out(Client::connect(bench.gate).await?, bench.gate, keeps));
    }
    bench.upstream.release("a");
    let first = timeout(SOON, askers.join_next()).await.context("a way out")?;
    let (method, path) = first.context("an asker")???;
    let answer = timeout(Duration::from_secs(1), client.response("GET")).await;
    let answer = answer.with_context(|| format!("{method} {path} got out before the response"))?;
    answer?.expect(200).map(drop)
}

/// The way out of this client that is open first.
async fn first_way_out(
    mut client: Client,
    gate: SocketAddr,
    keeps: bool,
) -> Outcome<(&'static str, &'static str)> {
    let ways = [("GET", "/prestop"), ("GET", "/ready"), ("POST", "/drain_listeners?inboundonly")];
    for (method, path) in ways.into_iter().cycle() {
        if client.request(&Request::new(method, path)).await?.status == 200 {
            return Ok((method, path));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        if !keeps {
            client = Client::connect(gate).await?;
        }
    }
    bail!("there are no ways out")
}
