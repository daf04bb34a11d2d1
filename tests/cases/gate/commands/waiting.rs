//! `prestop` and `wait` hold until the gate answers exactly 200, whatever else comes.

use std::net::TcpListener;

use tokio::time::{Instant, sleep};

use super::Operator;
use crate::cases::gate::bench::{Bench, bootstrap, gate_listener, main_listener, same};
use crate::cases::gate::deaths::with_test_deaths;
use crate::lab::{Lab, cases};
use kit::prelude::*;
use kit::wire::free_port;

cases! {
    begins_and_holds,
    a_wait_begins_no_drain,
    only_a_hook_is_content_with_a_deadline,
    gives_up_in_time,
    survives_a_gate_that_comes_later,
    survives_a_gate_that_dies,
}

async fn begins_and_holds(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, r#"{"quiet_ms": 300, "deadline_ms": 90000}"#).await?;
    let operator = Operator::beside(&bench)?;
    let mut client = bench.held("a").await?;
    // Two terminals at once.
    let waits = [
        operator.starts(&["prestop", "--timeout", "60s"]),
        operator.starts(&["prestop", "--timeout", "60s", "-o", "json"]),
    ];
    bench.until("begin", "done").await?;
    sleep(Duration::from_millis(6_000)).await; // longer than one request is held
    ensure!(waits.iter().all(|wait| !wait.is_finished()), "they hold");
    bench.release("a", &mut client).await?;
    let [text, json] = waits;
    text.await??
        .expect(0)?
        .stdout_contains("drained: the last stream has ended")?
        .stderr_contains("draining: 1 stream holds the drain")?;
    same(&json.await??.expect(0)?.json_lines()?[0], "state", "drained")
}

async fn a_wait_begins_no_drain(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, r#"{"quiet_ms": 300}"#).await?;
    let operator = Operator::beside(&bench)?;
    let said = operator.runs(&["wait", "--timeout", "700ms"]).await?.expect(1)?;
    said.stdout_contains("serving: no drain was asked for")?;
    same(&bench.status().await?, "state", "serving")?;
    let waits = operator.starts(&["wait", "--timeout", "60s", "--interval", "100ms"]);
    sleep(Duration::from_millis(500)).await;
    ensure!(!waits.is_finished(), "it holds");
    // Whatever the interval, `wait` asks a last time at the end of its time-out.
    let seldom = ["wait", "--timeout", "6s", "--interval", "60s"];
    let asks_at_the_end = operator.starts(&seldom);
    sleep(Duration::from_millis(500)).await;
    operator.runs(&["drain"]).await?.expect(0)?;
    waits.await??.expect(0)?;
    asks_at_the_end.await??.expect(0)?;
    Ok(())
}

/// An open gate may have cut streams. For a stop hook that is the end, and no failure.
async fn only_a_hook_is_content_with_a_deadline(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, r#"{"quiet_ms": 300, "deadline_ms": 1000}"#).await?;
    let operator = Operator::beside(&bench)?;
    let held = bench.held("a").await?;
    operator.runs(&["drain"]).await?.expect(0)?;
    let expired = operator.runs(&["wait", "--timeout", "20s"]).await?.expect(1)?;
    expired.stdout_contains("expired: the deadline came first; 1 stream is in")?;
    operator.runs(&["prestop", "--timeout", "20s"]).await?.expect(0)?;
    operator.runs(&["drain", "--cancel"]).await?.expect(0)?;
    operator.runs(&["drain", "--force", "--reason", "x"]).await?.expect(0)?;
    let forced = operator.runs(&["wait", "--timeout", "0s"]).await?.expect(1)?;
    forced.stdout_contains("forced: x; 1 stream is in flight, and is cut when Envoy stops\n")?;
    drop(held);
    Ok(())
}

async fn gives_up_in_time(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, r#"{"quiet_ms": 300, "deadline_ms": 90000}"#).await?;
    let held = bench.held("a").await?;
    let began = Instant::now();
    let said =
        Operator::beside(&bench)?.runs(&["prestop", "--timeout", "1500ms"]).await?.expect(1)?;
    ensure!(began.elapsed() >= Duration::from_millis(1_400), "too early: {:?}", began.elapsed());
    said.stdout_contains("1 stream is in flight")?
        .stderr_contains("the gate is not open after 1500ms")?;
    let unused = Operator::at(&format!("http://{}", bench.upstream.refused()))?;
    let said = unused.runs(&["wait", "--timeout", "800ms"]).await?.expect(2)?;
    ensure_eq!(said.stderr.matches("no program listens there").count(), 1, "{}", said.stderr);
    said.stderr_contains("no answer within 800ms")?.stderr_contains("LASTSTREAM_GATE")?;
    // A silent server does not hold `wait` for longer than its time-out.
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let silent = Operator::at(&format!("http://{}", silent.local_addr()?))?;
    silent.runs(&["wait", "--timeout", "2s"]).await?.expect(2)?;
    drop(held);
    Ok(())
}

async fn survives_a_gate_that_comes_later(lab: &Lab) -> Outcome {
    let port = free_port()?;
    let operator = Operator::at(&format!("http://127.0.0.1:{port}"))?;
    let waits = operator.starts(&["prestop", "--timeout", "90s", "--interval", "100ms"]);
    sleep(Duration::from_millis(1_000)).await;
    ensure!(!waits.is_finished(), "no gate is there yet");
    let upstream = Upstream::start().await?;
    let gate = gate_listener(lab, r#"{"quiet_ms": 300}"#).port(port);
    let bootstrap = bootstrap(&upstream).listener(main_listener(lab)).listener(gate);
    let envoy = Envoy::start(&lab.envoy, bootstrap.build(), Options::default()).await?;
    let said = waits.await??.expect(0)?;
    ensure_eq!(envoy.port("gate").await?, port, "the gate's port");
    said.stdout_contains("drained")?.stderr_contains("no program listens there").map(drop)
}

async fn survives_a_gate_that_dies(lab: &Lab) -> Outcome {
    let lab = with_test_deaths(lab)?;
    let bench = Bench::set(&lab, r#"{"quiet_ms": 300, "deadline_ms": 90000}"#).await?;
    let mut client = bench.held("a").await?;
    let operator = Operator::beside(&bench)?;
    let waits = [
        operator.starts(&["prestop", "--timeout", "60s", "--interval", "100ms"]),
        operator.starts(&["wait", "--timeout", "60s", "--interval", "100ms"]),
    ];
    bench.until("state", "draining").await?;
    for how in ["abort", "panic", "abort"] {
        // Both workers' gates.
        for _ in 0..6 {
            let answer =
                once(bench.gate, &Request::get("/ready").header("x-laststream-die", how)).await?;
            ensure!(answer.status >= 500, "the dead gate let a request through");
        }
        sleep(Duration::from_millis(700)).await;
    }
    ensure!(waits.iter().all(|wait| !wait.is_finished()), "a stream is in flight");
    bench.release("a", &mut client).await?;
    for wait in waits {
        wait.await??.expect(0)?.stdout_contains("drained")?;
    }
    Ok(())
}
