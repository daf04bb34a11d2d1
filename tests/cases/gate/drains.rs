//! A drain from its beginning to its end.

use super::bench::{Bench, SOON, same};
use crate::lab::{Case, Lab, case};
use crate::support::failure::{Outcome, ensure, ensure_eq};
use crate::support::h1::{Client, Request, once};

pub(crate) fn cases() -> Vec<Case> {
    vec![case!(says_what_it_sees), case!(holds_until_the_last_stream_is_out)]
}

async fn says_what_it_sees(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, "{}").await?;
    let status = bench.until("count", "exact").await?;
    same(&status, "state", "serving")?;
    same(&status, "holding", 0)?;
    bench.get("/ready").await?.expect(503)?;
    bench.get("/nothing").await?.expect(404)?;
    ensure_eq!(bench.get("/drain").await?.expect(405)?.header("allow"), Some("POST, DELETE".into()), "allow");
    let mut client = Client::connect(bench.main).await?;
    client.send(&Request::get("/hold/a").bytes()).await?;
    bench.upstream.wait_held("a", 1, SOON).await?;
    same(&bench.status().await?, "holding", 1)?;
    bench.upstream.release("a");
    client.response("GET").await?.expect(200)?;
    Ok(())
}

async fn holds_until_the_last_stream_is_out(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, r#"{"quiet_ms": 300}"#).await?;
    let mut client = Client::connect(bench.main).await?;
    client.send(&Request::get("/hold/a").bytes()).await?;
    bench.upstream.wait_held("a", 1, SOON).await?;
    let gate = bench.gate;
    let waiter = tokio::spawn(async move { Client::connect(gate).await?.get("/prestop?wait").await });
    bench.until("state", "draining").await?;
    bench.until("begin", "done").await?;
    bench.post("/quitquitquit").await?.expect(503)?;
    bench.get("/prestop").await?.expect(503)?;
    once(bench.main, &Request::get("/echo")).await?.expect(200)?;
    ensure!(!waiter.is_finished(), "the hook is held");
    bench.upstream.release("a");
    client.response("GET").await?.expect(200)?;
    let answer = waiter.await??.expect(200)?;
    ensure_eq!(answer.json()?["state"], "drained", "{}", answer.text());
    let status = bench.until("state", "drained").await?;
    same(&status, "late", 1)?;
    bench.get("/ready").await?.expect(200)?;
    Ok(())
}
