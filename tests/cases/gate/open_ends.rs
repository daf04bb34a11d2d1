//! An open gate does not stay open: each answer of 200 is valid for the moment in which it is
//! given.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::time::{Instant, sleep, sleep_until};

use super::bench::{Bench, same};
use super::watch::{holds_until_answered, lets_nothing_out, opens};
use crate::cases::stage::hcm;
use crate::lab::{Lab, cases};
use kit::admin_proxy::CallHandling;
use kit::prelude::*;

cases! {
    an_early_stop_hook_opens_nothing_for_later,
    a_drain_that_has_ended_can_be_reset,
    a_drained_gate_serves_again_after_its_deadline,
    an_expired_gate_serves_again,
    a_forced_gate_serves_again,
    light_traffic_is_never_in_flight_at_200,
    a_stream_after_the_quit_signal_is_refused,
    a_stream_after_the_call_to_the_agent_is_refused,
}

const GATE: &str = r#"{"quiet_ms": 300, "deadline_ms": 90000}"#;
const SHORT: &str = r#"{"quiet_ms": 300, "deadline_ms": 1500, "open_ms": 1000}"#;

async fn an_early_stop_hook_opens_nothing_for_later(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, GATE).await?;
    opens(&bench).await?;
    let mut clients = Vec::new();
    for number in 0..3 {
        clients.push((format!("a{number}"), bench.held(&format!("a{number}")).await?));
    }
    let answer = bench.get("/prestop?wait=500ms").await?.expect(503)?.json()?;
    same(&answer, "state", "draining")?;
    same(&answer, "holding", 3)?;
    ensure!(
        !answer["reason"].as_str().unwrap_or_default().contains("nothing"),
        "the text and the numbers agree: {answer}"
    );
    for (key, client) in &mut clients {
        lets_nothing_out(&bench, 4).await?;
        bench.release(key, client).await?;
    }
    opens(&bench).await
}

/// Envoy's listeners stay drained, and the answer says so.
async fn a_drain_that_has_ended_can_be_reset(lab: &Lab) -> Outcome {
    for (begin, stays) in [("drain_listeners", Some("listeners")), ("nothing", None)] {
        let gate =
            format!(r#"{{"quiet_ms": 300, "deadline_ms": 90000, "begin": {{"call": "{begin}"}}}}"#);
        let bench = Bench::set(lab, &gate).await?;
        opens(&bench).await?;
        let answer = bench.delete("/drain").await?.expect(200)?.json()?;
        same(&answer, "state", "serving")?;
        if let Some(stays) = stays {
            ensure!(
                answer["reason"].as_str().is_some_and(|reason| reason.contains(stays)),
                "what cannot be undone: {answer}"
            );
        }
        bench.get("/ready").await?.expect(503)?;
        let client = bench.held("a").await?;
        holds_until_answered(&bench, "a", client).await?;
    }
    Ok(())
}

async fn a_drained_gate_serves_again_after_its_deadline(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, r#"{"quiet_ms": 300, "deadline_ms": 4000}"#).await?;
    opens(&bench).await?;
    bench.until("state", "serving").await?;
    let mut client = bench.held("a").await?;
    let answer = bench.get("/prestop").await?.expect(503)?.json()?;
    same(&answer, "state", "draining")?;
    let left = bench.status().await?["deadline_in_ms"].as_u64();
    ensure!(left > Some(2_000), "a deadline of its own: {left:?}");
    lets_nothing_out(&bench, 3).await?;
    bench.release("a", &mut client).await?;
    opens(&bench).await
}

async fn an_expired_gate_serves_again(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, SHORT).await?;
    let mut client = bench.held("a").await?;
    for _ in 0..2 {
        let began = Instant::now();
        let answer = bench.get("/prestop?wait").await?.expect(200)?.json()?;
        same(&answer, "state", "expired")?;
        same(&answer, "holding", 1)?;
        ensure!(
            began.elapsed() > Duration::from_millis(1_400),
            "a deadline of its own: {:?}",
            began.elapsed()
        );
        serves_again(&bench).await?;
    }
    bench.release("a", &mut client).await?;
    opens(&bench).await
}

async fn a_forced_gate_serves_again(lab: &Lab) -> Outcome {
    let bench =
        Bench::set(lab, r#"{"quiet_ms": 300, "deadline_ms": 90000, "open_ms": 1000}"#).await?;
    let client = bench.held("a").await?;
    bench.post("/force?reason=test").await?.expect(200)?;
    same(&bench.get("/ready").await?.expect(200)?.json()?, "state", "forced")?;
    serves_again(&bench).await?;
    holds_until_answered(&bench, "a", client).await
}

/// The gate serves again, with a stream in flight and before another drain begins.
async fn serves_again(bench: &Bench) -> Outcome {
    bench.until("state", "serving").await?;
    bench.get("/ready").await?.expect(503)?;
    bench.post("/quitquitquit").await?.expect(503)?;
    Ok(())
}

/// A client that sends a request every two thirds of a second.
#[derive(Default)]
struct Traffic {
    /// The number of the request that the upstream has and whose client waits; 0 for none.
    waiting: AtomicU64,
    over: AtomicBool,
}

const DRAINS: u64 = 10;
/// Polls until a drain is given up.
const POLLS: usize = 60;
const POLL: Duration = Duration::from_millis(250);
const REQUEST: Duration = Duration::from_millis(300);
const BETWEEN_REQUESTS: Duration = Duration::from_millis(667);

async fn light_traffic_is_never_in_flight_at_200(lab: &Lab) -> Outcome {
    let bench =
        Bench::set(lab, r#"{"quiet_ms": 250, "deadline_ms": 90000, "begin": {"call": "nothing"}}"#)
            .await?;
    let traffic = Traffic::default();
    let ((), wrong) =
        tokio::try_join!(send_lightly(&bench, &traffic), wrong_drains(&bench, &traffic))?;
    say(&format!("{wrong} of {DRAINS} drains gave their first 200 with a stream in flight"));
    ensure_eq!(wrong, 0, "first answers of 200 with a stream in flight, in {DRAINS} drains");
    Ok(())
}

async fn send_lightly(bench: &Bench, traffic: &Traffic) -> Outcome {
    for number in 1.. {
        if traffic.over.load(Ordering::Relaxed) {
            break;
        }
        let next = Instant::now() + BETWEEN_REQUESTS;
        let mut client = bench.held("light").await?;
        traffic.waiting.store(number, Ordering::Relaxed);
        sleep(REQUEST).await;
        bench.release("light", &mut client).await?;
        traffic.waiting.store(0, Ordering::Relaxed);
        sleep_until(next).await;
    }
    Ok(())
}

async fn wrong_drains(bench: &Bench, traffic: &Traffic) -> Outcome<u64> {
    let mut wrong = 0;
    for _ in 0..DRAINS {
        wrong += u64::from(polls_until_200(bench, traffic).await?);
        bench.delete("/drain").await?;
        bench.until("state", "serving").await?;
    }
    traffic.over.store(true, Ordering::Relaxed);
    Ok(wrong)
}

/// Whether one request was in flight from before the poll that got the first 200 until after it.
async fn polls_until_200(bench: &Bench, traffic: &Traffic) -> Outcome<bool> {
    let mut client = Client::connect(bench.gate).await?;
    for _ in 0..POLLS {
        let before = traffic.waiting.load(Ordering::Relaxed);
        let answer = client.get("/prestop").await?;
        let after = traffic.waiting.load(Ordering::Relaxed);
        match answer.status {
            200 => return Ok(before != 0 && before == after),
            other => ensure_eq!(other, 503, "the status of a poll"),
        }
        sleep(POLL).await;
    }
    // Traffic without a quiet period holds the drain, which is correct.
    Ok(false)
}

/// Once `finish` was sent, its effect cannot be stopped, whether or not its answer has arrived.
async fn a_stream_after_the_quit_signal_is_refused(lab: &Lab) -> Outcome {
    let judge = |method: &str, path: &str| {
        if (method, path) == ("POST", "/quitquitquit") {
            CallHandling::Intercept
        } else {
            CallHandling::Forward
        }
    };
    let gate = r#"{"quiet_ms": 300, "deadline_ms": 90000, "finish": "quit"}"#;
    let (bench, _proxy) =
        Bench::proxied(Bootstrap::new(), lab, gate, hcm(lab, "{}"), judge).await?;
    refuses_new_streams(&bench).await
}

async fn a_stream_after_the_call_to_the_agent_is_refused(lab: &Lab) -> Outcome {
    let agent = Upstream::start().await?;
    let main = hcm(lab, "{}");
    let bootstrap = Bootstrap::new().cluster(cluster::h1("agent", agent.h1()));
    let gate = r#"{"quiet_ms": 300, "deadline_ms": 90000, "finish": "drain_agent"}"#;
    let bench = Bench::upon(bootstrap, lab, gate, main).await?;
    refuses_new_streams(&bench).await?;
    ensure_eq!(agent.requests(), 1, "calls to the agent");
    Ok(())
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
    ensure_eq!(bench.upstream.requests(), before, "requests at the upstream");
    same(&bench.status().await?, "sealed", true)?;
    still_refuses_after_a_reset(bench, before).await
}

/// A sent signal cannot be undone, and the answer says so.
async fn still_refuses_after_a_reset(bench: &Bench, before: usize) -> Outcome {
    let answer = bench.delete("/drain").await?.expect(200)?.json()?;
    ensure!(
        answer["reason"].as_str().is_some_and(|reason| reason.contains("cannot be")),
        "what cannot be undone: {answer}"
    );
    once(bench.main, &Request::get("/echo")).await?.expect(503)?;
    ensure_eq!(bench.upstream.requests(), before, "requests at the upstream");
    Ok(())
}
