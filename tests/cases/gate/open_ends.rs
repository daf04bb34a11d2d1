//! After the last call the gate refuses new streams.

use super::bench::{Bench, SOON, same, says};
use super::watch::lets_nothing_out;
use crate::cases::stage::hcm;
use crate::lab::{Lab, cases};
use kit::admin_proxy::CallHandling;
use kit::h2;
use kit::prelude::*;

cases! {
    a_stream_after_the_quit_signal_is_refused,
    a_stream_after_the_call_to_the_agent_is_refused,
    the_last_call_ends_envoy_at_zero,
}

/// Once `finish` was sent, its effect cannot be stopped, whether or not its answer has arrived.
async fn a_stream_after_the_quit_signal_is_refused(lab: &Lab) -> Outcome {
    let judge = |method: &str, path: &str| match (method, path) {
        ("POST", "/quitquitquit") => CallHandling::Intercept,
        _ => CallHandling::Forward,
    };
    let gate = r#"{"quiet_ms": 300, "deadline_ms": 90000, "finish": "quit"}"#;
    let (bench, _proxy) =
        Bench::proxied(Bootstrap::new(), lab, gate, hcm(lab, "{}"), judge).await?;
    refuses_new_streams(&bench).await
}

async fn a_stream_after_the_call_to_the_agent_is_refused(lab: &Lab) -> Outcome {
    let agent = Upstream::start().await?;
    let bootstrap = Bootstrap::new().cluster(cluster::h1("agent", agent.h1()));
    let gate = r#"{"quiet_ms": 300, "deadline_ms": 90000, "finish": "drain_agent"}"#;
    let bench = Bench::upon(bootstrap, lab, gate, hcm(lab, "{}")).await?;
    refuses_new_streams(&bench).await?;
    ensure_eq!(agent.requests(), 1, "calls to the agent");
    Ok(())
}

async fn the_last_call_ends_envoy_at_zero(lab: &Lab) -> Outcome {
    let gate = r#"{"quiet_ms": 300, "deadline_ms": 90000, "finish": "quit"}"#;
    let mut bench = Bench::set(lab, gate).await?;
    let mut client = bench.held("a").await?;
    bench.post("/drain").await?.expect(202)?;
    lets_nothing_out(&bench, 10).await?;
    ensure!(bench.envoy.is_alive(), "Envoy has ended beside a stream");
    bench.release("a", &mut client).await?;
    bench.envoy.exited(SOON).await.map(drop)
}

async fn refuses_new_streams(bench: &Bench) -> Outcome {
    let mut kept = Client::connect(bench.main).await?;
    kept.get("/echo").await?.expect(200)?;
    bench.post("/drain").await?.expect(202)?;
    bench.until("finish", "done").await?;
    let before = bench.upstream.requests();
    for _ in 0..20 {
        let answer = once(bench.main, &Request::get("/echo")).await?.expect(503)?;
        ensure!(answer.header("retry-after").is_some(), "safe to repeat: {:?}", answer.headers);
    }
    kept.get("/echo").await?.expect(503)?;
    let grpc = h2::Client::connect(bench.main).await?.request(h2::grpc("/grpc"), "").await?;
    ensure_eq!(grpc.header("grpc-status"), Some("14".into()), "UNAVAILABLE, safe to repeat");
    ensure_eq!(bench.upstream.requests(), before, "requests at the upstream");
    same(&bench.status().await?, "sealed", true)?;
    still_refuses_after_a_reset(bench, before).await
}

/// A sent signal cannot be undone, and the answer says so.
async fn still_refuses_after_a_reset(bench: &Bench, before: usize) -> Outcome {
    let answer = bench.delete("/drain").await?.expect(200)?.json()?;
    says(&answer, "reason", "cannot be")?;
    once(bench.main, &Request::get("/echo")).await?.expect(503)?;
    ensure_eq!(bench.upstream.requests(), before, "requests at the upstream");
    Ok(())
}
