//! The last call: one that arrived is not sent again, one that failed is, and none is made while
//! another gate's streams are in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::sleep;

use super::bench::{Bench, SOON, gate_filter, gate_listener_with, same};
use crate::cases::stage::{hcm, routes};
use crate::lab::{Lab, cases};
use kit::admin_proxy::{AdminFault, AdminProxy, CallHandling};
use kit::fake_server::{Answer, FakeServer, Fault};
use kit::prelude::*;

cases! {
    a_quit_whose_answer_is_broken_off_is_sent_once_and_refuses_streams,
    a_call_to_the_agent_whose_answer_is_broken_off_is_sent_once_and_refuses_streams,
    a_last_call_that_failed_is_tried_again_while_statistics_are_slow,
    the_last_call_waits_for_streams_of_another_gate,
}

const QUIT: &str = "/quitquitquit";

/// A bench whose quit signals are counted, and handled as `handles` says of the number of earlier
/// ones. Each query takes `query`.
async fn counts_quits(
    lab: &Lab,
    gate: &str,
    query: Duration,
    handles: fn(usize) -> CallHandling,
) -> Outcome<(Bench, AdminProxy, Arc<AtomicUsize>)> {
    let calls = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&calls);
    let judge = move |method: &str, path: &str| match (method, path) {
        ("POST", QUIT) => handles(count.fetch_add(1, Ordering::Relaxed)),
        ("GET", _) if query > Duration::ZERO => CallHandling::Fault(AdminFault::Slow(query)),
        _ => CallHandling::Forward,
    };
    let (bench, proxy) = Bench::proxied(Bootstrap::new(), lab, gate, hcm(lab, "{}"), judge).await?;
    bench.until("count", "exact").await?;
    Ok((bench, proxy, calls))
}

/// The receiver has taken the call, so it is not sent again, and the process may end at any time.
pub(super) async fn is_sent_once(bench: &Bench, calls: impl Fn() -> usize) -> Outcome {
    wait_for(SOON, "the call", async || calls().checked_sub(1).context("none")).await?;
    let mut client = Client::connect(bench.main).await?;
    for look in 0..60 {
        let answer = client.get("/echo").await?.expect(503);
        answer.with_context(|| format!("look {look}, after {} calls", calls()))?;
        sleep(Duration::from_millis(50)).await;
    }
    ensure_eq!(calls(), 1, "calls");
    Ok(())
}

async fn a_quit_whose_answer_is_broken_off_is_sent_once_and_refuses_streams(lab: &Lab) -> Outcome {
    let unanswered = |_| CallHandling::Fault(AdminFault::Unanswered);
    for finish in ["nothing", "quit"] {
        let gate = format!(r#"{{"quiet_ms": 300, "deadline_ms": 90000, "finish": "{finish}"}}"#);
        let (bench, _proxy, calls) = counts_quits(lab, &gate, Duration::ZERO, unanswered).await?;
        match finish {
            "quit" => drop(bench.hook().await??.expect(200)?),
            _ => drop(bench.post(QUIT).await?),
        }
        let sent = is_sent_once(&bench, || calls.load(Ordering::Relaxed)).await;
        sent.with_context(|| format!("finish: {finish}"))?;
    }
    Ok(())
}

async fn a_call_to_the_agent_whose_answer_is_broken_off_is_sent_once_and_refuses_streams(
    lab: &Lab,
) -> Outcome {
    let agent = FakeServer::start(|_, _| Err(Fault::Bytes(b"")))?;
    let bootstrap = Bootstrap::new().cluster(cluster::h1("agent", agent.address));
    let gate = r#"{"quiet_ms": 300, "deadline_ms": 90000, "finish": "drain_agent"}"#;
    let bench = Bench::upon(bootstrap, lab, gate, hcm(lab, "{}")).await?;
    bench.until("count", "exact").await?;
    let _hook = bench.hook();
    is_sent_once(&bench, || agent.asked().len()).await
}

/// A query takes longer than twice the time limit of a call. The first call gets 503 from its
/// receiver, which has not taken it.
async fn a_last_call_that_failed_is_tried_again_while_statistics_are_slow(lab: &Lab) -> Outcome {
    let gate = r#"{"quiet_ms": 300, "deadline_ms": 90000, "finish": "quit",
        "admin": {"timeout_ms": 200}}"#;
    let fails_once = |before| match before {
        0 => CallHandling::Fault(AdminFault::Unavailable(Duration::ZERO)),
        _ => CallHandling::Intercept,
    };
    let (bench, _proxy, calls) =
        counts_quits(lab, gate, Duration::from_millis(600), fails_once).await?;
    bench.hook().await??.expect(200)?;
    let finish = wait_for(SOON, "the end of the last call", async || {
        let status = bench.status().await?;
        ensure!(["done", "failed"].iter().any(|end| status["finish"] == **end), "{status}");
        Ok(status["finish"].clone())
    })
    .await?;
    ensure_eq!((finish, calls.load(Ordering::Relaxed)), (json!("done"), 2), "the end, and calls");
    Ok(())
}

/// A sidecar with a gate for each direction. The inbound one ends the agent and with it the process
/// in which the app still makes requests.
async fn the_last_call_waits_for_streams_of_another_gate(lab: &Lab) -> Outcome {
    let agent = FakeServer::start(|_, _| Ok(Answer::new(200)))?;
    let outbound = lab.stream(r#"{"scope": "outbound"}"#).filter();
    let outbound = Listener::new("outbound", routes(Hcm::new("outbound").filter(outbound)));
    let other = gate_filter(lab, r#"{"scopes": ["outbound"], "deadline_ms": 90000}"#);
    let bootstrap = Bootstrap::new()
        .cluster(cluster::h1("agent", agent.address))
        .listener(outbound.direction("OUTBOUND"))
        .listener(gate_listener_with("other-gate", other));
    let gate = r#"{"quiet_ms": 300, "deadline_ms": 90000, "scopes": ["inbound"],
        "begin": {"inbound_only": true}, "finish": "drain_agent"}"#;
    let bench = Bench::upon(bootstrap, lab, gate, hcm(lab, r#"{"scope": "inbound"}"#)).await?;
    bench.until("count", "exact").await?;
    let mut outgoing = bench.held_at("outbound", "out").await?;
    let hook = bench.hook();
    bench.until("state", "drained").await?;
    let mut client = Client::connect(bench.envoy.address("outbound").await?).await?;
    for look in 0..40 {
        client.get("/echo").await?.expect(200).with_context(|| format!("request {look}"))?;
        sleep(Duration::from_millis(50)).await;
    }
    ensure_eq!(agent.asked().len(), 0, "calls to the agent while a request is in flight");
    let other = once(bench.envoy.address("other-gate").await?, &Request::get("/status")).await?;
    same(&other.expect(200)?.json()?, "state", "serving")?;
    bench.release("out", &mut outgoing).await?;
    same(&hook.await??.expect(200)?.json()?, "state", "drained")?;
    ensure_eq!(agent.asked().len(), 1, "calls to the agent");
    Ok(())
}
