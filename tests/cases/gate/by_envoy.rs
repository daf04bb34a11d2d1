//! A gate that counts by Envoy alone: no filter is in the path of requests, and a route refuses new
//! ones behind the last call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::bench::{Bench, SOON, same, says};
use super::last_call::is_sent_once;
use super::watch::{holds_until_answered, lets_nothing_out, opens};
use crate::cases::stage::routes;
use crate::lab::{Lab, cases};
use kit::admin_proxy::{AdminFault, AdminProxy, CallHandling};
use kit::bootstrap::only_stats_with_prefixes;
use kit::prelude::*;
use kit::websocket::WebSocket;

cases! {
    a_request_holds_until_its_client_has_the_answer,
    a_websocket_holds_unless_it_is_exempt,
    what_the_app_has_begun_is_answered_before_the_end,
    a_last_call_that_may_have_arrived_leaves_requests_refused,
    a_last_call_that_failed_lets_requests_pass_again,
    what_an_earlier_gate_has_left_refused_passes_again,
    without_an_admin_layer_there_is_no_last_call,
    without_envoys_count_the_drain_expires,
}

const GATE: &str = r#"{"count": "envoy", "quiet_ms": 300, "deadline_ms": 90000}"#;
const QUITS: &str =
    r#"{"count": "envoy", "quiet_ms": 300, "deadline_ms": 90000, "finish": "quit"}"#;
const QUIT: &str = "/quitquitquit";

/// The route that is the latch, at the head of the virtual host.
pub(super) fn latch() -> Route {
    Route::prefix("/")
        .direct(503, "the proxy is closing\n")
        .with(
            "/match/runtime_fraction",
            json!({
                "default_value": { "numerator": 0 }, "runtime_key": "laststream.latch",
            }),
        )
        .with(
            "/response_headers_to_add",
            json!([
                { "header": { "key": "retry-after", "value": "1" } },
            ]),
        )
}

pub(super) fn main() -> Hcm {
    routes(Hcm::new("main").route(latch()))
}

/// Envoy's runtime can be changed through its admin interface, and begins with these layers.
pub(super) fn layers(first: &[Value]) -> Bootstrap {
    let admin = json!({ "name": "admin", "admin_layer": {} });
    let layers: Vec<Value> = first.iter().cloned().chain([admin]).collect();
    Bootstrap::new().with("/layered_runtime/layers", json!(layers))
}

/// A gate that has heard from every worker.
async fn calm(bench: Bench) -> Outcome<Bench> {
    same(&bench.until("count", "envoy").await?, "holding", 0)?;
    bench.until("counters", 3).await?;
    Ok(bench)
}

async fn bench(lab: &Lab, gate: &str) -> Outcome<Bench> {
    calm(Bench::upon(layers(&[]), lab, gate, main()).await?).await
}

/// A bench whose quit signals end like this, and the number of times that requests were refused.
async fn quits(
    lab: &Lab,
    handling: CallHandling,
) -> Outcome<(Bench, AdminProxy, Arc<AtomicUsize>)> {
    let refused = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&refused);
    let judge = move |method: &str, path: &str| match (method, path) {
        ("POST", QUIT) => handling,
        ("POST", "/runtime_modify?laststream.latch=100") => {
            count.fetch_add(1, Ordering::Relaxed);
            CallHandling::Forward
        }
        _ => CallHandling::Forward,
    };
    let (bench, proxy) = Bench::proxied(layers(&[]), lab, QUITS, main(), judge).await?;
    Ok((calm(bench).await?, proxy, refused))
}

async fn a_request_holds_until_its_client_has_the_answer(lab: &Lab) -> Outcome {
    holds_a_request(&bench(lab, GATE).await?).await
}

pub(super) async fn holds_a_request(bench: &Bench) -> Outcome {
    let client = bench.held("a").await?;
    bench.until("holding", 1).await?;
    let listing = bench.get("/streams").await?.expect(200)?.json()?;
    same(&listing, "clusters", json!([{ "cluster": "app", "requests": 1 }]))?;
    holds_until_answered(bench, "a", client).await?;
    bench.until("count", "envoy").await.map(drop)
}

async fn a_websocket_holds_unless_it_is_exempt(lab: &Lab) -> Outcome {
    for (long_lived, holds) in [("wait", true), ("exempt", false)] {
        let gate = GATE.replacen('{', &format!(r#"{{"long_lived": "{long_lived}", "#), 1);
        handles_a_websocket(&bench(lab, &gate).await?, holds).await?;
    }
    Ok(())
}

pub(super) async fn handles_a_websocket(bench: &Bench, holds: bool) -> Outcome {
    let mut socket = WebSocket::open(bench.main, "/ws").await?;
    socket.echo("before").await?;
    if holds {
        lets_nothing_out(bench, 8).await?;
        socket.echo("still").await?;
        socket.close(1000).await?;
        return opens(bench).await;
    }
    let client = bench.held("a").await?;
    holds_until_answered(bench, "a", client).await?;
    socket.echo("still").await
}

/// Requests come with gaps around the quiet period, and Envoy ends in one of them.
async fn what_the_app_has_begun_is_answered_before_the_end(lab: &Lab) -> Outcome {
    let mut bench = bench(lab, QUITS).await?;
    let clients = clients(bench.main);
    sleep(Duration::from_secs(1)).await;
    bench.post("/drain").await?.expect(202)?;
    ends_after_all_answers(&mut bench, clients).await
}

/// Clients that send requests until Envoy has ended; how many were answered with 200.
pub(super) fn clients(main: SocketAddr) -> Vec<JoinHandle<usize>> {
    let clients = (0..6).map(|seed| {
        tokio::spawn(async move {
            let (mut rng, mut answered) = (fastrand::Rng::with_seed(seed), 0);
            for _ in 0..2_000 {
                sleep(Duration::from_millis(rng.u64(0..2_500))).await;
                let Ok(mut client) = Client::connect(main).await else { break };
                match client.get("/echo").await {
                    Ok(response) => answered += usize::from(response.status == 200),
                    Err(_) => break,
                }
            }
            answered
        })
    });
    clients.collect()
}

/// Envoy ends, and what the app has begun was answered.
pub(super) async fn ends_after_all_answers(
    bench: &mut Bench,
    clients: Vec<JoinHandle<usize>>,
) -> Outcome {
    let status = bench.envoy.exited(PATIENCE).await?;
    ensure!(status.success(), "{status}: {}", bench.envoy.tail());
    let mut answered = 0;
    for client in clients {
        answered += client.await?;
    }
    ensure_eq!(bench.upstream.requests(), answered, "requests that the app has begun");
    Ok(())
}

async fn a_last_call_that_may_have_arrived_leaves_requests_refused(lab: &Lab) -> Outcome {
    let unanswered = CallHandling::Fault(AdminFault::Unanswered);
    let (bench, _proxy, _) = quits(lab, unanswered).await?;
    bench.hook().await??.expect(200)?;
    bench.until("sealed", true).await?;
    let answer = once(bench.main, &Request::get("/echo")).await?.expect(503)?;
    ensure_eq!(answer.header("retry-after"), Some("1".to_owned()), "retry-after");
    is_sent_once(&bench, || 1).await
}

async fn a_last_call_that_failed_lets_requests_pass_again(lab: &Lab) -> Outcome {
    let unavailable = CallHandling::Fault(AdminFault::Unavailable(Duration::ZERO));
    let (bench, _proxy, refused) = quits(lab, unavailable).await?;
    bench.post("/drain").await?.expect(202)?;
    let look = async || refused.load(Ordering::Relaxed).checked_sub(2).context("no second try");
    wait_for(SOON, "the latch to be closed twice", look).await?;
    bench.delete("/drain").await?.expect(200)?;
    let look = async || once(bench.main, &Request::get("/echo")).await?.expect(200).map(drop);
    wait_for(SOON, "requests to pass", look).await
}

async fn what_an_earlier_gate_has_left_refused_passes_again(lab: &Lab) -> Outcome {
    let left = json!({ "name": "left", "static_layer": { "laststream.latch": 100 } });
    let bench = calm(Bench::upon(layers(&[left]), lab, GATE, main()).await?).await?;
    let look = async || once(bench.main, &Request::get("/echo")).await?.expect(200).map(drop);
    wait_for(SOON, "requests to pass", look).await
}

async fn without_an_admin_layer_there_is_no_last_call(lab: &Lab) -> Outcome {
    let bench = calm(Bench::upon(Bootstrap::new(), lab, QUITS, main()).await?).await?;
    bench.post("/drain").await?.expect(202)?;
    bench.until("state", "drained").await?;
    // An Envoy that is still starting is asked once more.
    let advises = async || says(&bench.status().await?, "advice", "admin_layer");
    wait_for(SOON, "the advice", advises).await?;
    sleep(Duration::from_secs(2)).await;
    once(bench.main, &Request::get("/echo")).await?.expect(200).map(drop)
}

async fn without_envoys_count_the_drain_expires(lab: &Lab) -> Outcome {
    let kept = only_stats_with_prefixes(&["wasmcustom.laststream_", "listener", "server"]);
    let gate = r#"{"count": "envoy", "quiet_ms": 300, "deadline_ms": 4000}"#;
    let bench = Bench::upon(layers(&[]).stats_matcher(kept), lab, gate, main()).await?;
    bench.until("counters", 3).await?;
    let answer = bench.hook().await??.expect(200)?.json()?;
    same(&answer, "state", "expired")?;
    says(&bench.status().await?, "advice", "downstream_rq_active")
}
