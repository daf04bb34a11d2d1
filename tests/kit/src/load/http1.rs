//! HTTP/1 requests that get an answer.

use super::{Targets, Turn};
use crate::h1::{Client, Request, once};
use crate::{Outcome, ensure, ensure_eq};

pub(crate) async fn keep_alive(targets: &Targets, _: Turn) -> Outcome {
    let mut client = Client::connect(targets.tcp).await?;
    client.get("/up/echo").await?.expect(200)?;
    ensure_eq!(client.get("/up/bytes/3000").await?.expect(200)?.body.len(), 3000, "bytes");
    client.get("/up/status/204").await?.expect(204)?;
    Ok(())
}

pub(crate) async fn pipelined(targets: &Targets, _: Turn) -> Outcome {
    let mut client = Client::connect(targets.tcp).await?;
    let requests =
        ["/up/bytes/10", "/up/delay/2", "/up/chunked/1000"].map(|path| Request::get(path).bytes());
    client.send(&requests.concat()).await?;
    let mut lengths = Vec::new();
    for _ in &requests {
        lengths.push(client.response("GET").await?.expect(200)?.body.len());
    }
    ensure_eq!(lengths, [10, 7, 1000], "lengths of the answers");
    Ok(())
}

pub async fn head(targets: &Targets, _: Turn) -> Outcome {
    let mut client = Client::connect(targets.tcp).await?;
    let answer = client.request(&Request::new("HEAD", "/up/bytes/500")).await?.expect(200)?;
    ensure_eq!(answer.header("content-length"), Some("500".into()), "content-length");
    Ok(())
}

pub(crate) async fn chunked_post(targets: &Targets, turn: Turn) -> Outcome {
    let request = Request::new("POST", "/up/echo-body").chunked(["first ", "second ", &turn.id]);
    let answer = once(targets.tcp, &request).await?.expect(200)?;
    ensure_eq!(answer.text(), format!("first second {}", turn.id), "the echo");
    Ok(())
}

pub(crate) async fn expect_continue(targets: &Targets, _: Turn) -> Outcome {
    let mut client = Client::connect(targets.tcp).await?;
    let request = Request::post("/up/echo-body", "patience").header("expect", "100-continue");
    client.send(&request.head_bytes()).await?;
    ensure_eq!(client.response_head("POST").await?.0.status, 100, "the interim answer");
    client.send(b"patience").await?;
    ensure_eq!(client.response("POST").await?.expect(200)?.text(), "patience", "the echo");
    Ok(())
}

pub(crate) async fn http_1_0(targets: &Targets, _: Turn) -> Outcome {
    let request = Request::get("/up/bytes/9").version("HTTP/1.0").without("host");
    ensure_eq!(once(targets.tcp, &request).await?.expect(200)?.body.len(), 9, "bytes");
    Ok(())
}

pub(crate) async fn bad_request(targets: &Targets, _: Turn) -> Outcome {
    let mut client = Client::connect(targets.tcp).await?;
    client.send(b"GET /up/echo HTTP/1.1\r\nhost: test.local\r\nno colon here\r\n\r\n").await?;
    client.response("GET").await?.expect(400).map(drop)
}

pub(crate) async fn header_too_large(targets: &Targets, _: Turn) -> Outcome {
    let request = Request::get("/up/echo").header("x-large", "x".repeat(20_000));
    once(targets.tcp, &request).await?.expect(431).map(drop)
}

pub(crate) async fn missing_host(targets: &Targets, _: Turn) -> Outcome {
    once(targets.tcp, &Request::get("/up/echo").without("host")).await?.expect(400).map(drop)
}

/// The body never arrives; Envoy answers without it and gives up the connection.
pub(crate) async fn answered_before_the_body(targets: &Targets, _: Turn) -> Outcome {
    let request = Request::new("POST", "/direct").header("content-length", "100000");
    let mut client = Client::with_request(targets.tcp, &request).await?;
    let answer = client.response("POST").await?.expect(200)?;
    ensure!(answer.text() == "direct", "{}", answer.text());
    Ok(())
}
