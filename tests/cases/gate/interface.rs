//! The gate's OpenAPI file against the real gate: every response in the file occurs, and no other.
//! Other methods and paths are unit tests in `filter/src/gate/http.rs`.

use std::cell::RefCell;
use std::collections::BTreeSet;

use laststream_filter::gate::CountState;
use laststream_filter::gate::{OPENAPI, StreamKind};
use laststream_filter::metrics;
use strum::VariantArray as _;

use super::bench::{Bench, same};
use crate::cases::stage::{hcm, routes};
use crate::lab::{Lab, cases};
use kit::fake_server::{Answer, FakeServer};
use kit::openapi::{Document, members};
use kit::prelude::*;

const SECRET: &str = "open-sesame-0123456789";

cases! {
    matches_its_openapi_description,
}

/// Sends requests that the file describes, and records the responses that have occurred.
struct Asking {
    document: Document,
    seen: RefCell<BTreeSet<String>>,
}

async fn matches_its_openapi_description(lab: &Lab) -> Outcome {
    let asking = Asking { document: Document::read(OPENAPI)?, seen: RefCell::default() };
    serves_drains_and_is_forced(&asking, lab).await?;
    shows_ends(&asking, lab).await?;
    wants_its_secret(&asking, lab).await?;
    passes_on_the_status_of_the_admin_interface(&asking, lab).await?;
    lists_requests_by_cluster(&asking, lab).await?;
    asking.has_seen_all()
}

async fn serves_drains_and_is_forced(asking: &Asking, lab: &Lab) -> Outcome {
    let bench = &Bench::set(lab, r#"{"quiet_ms": 300}"#).await?;
    bench.until("count", "exact").await?;
    asking.ask(bench, "GET /status", 200).await?;
    asking.ask(bench, "GET /streams", 200).await?;
    asking.ask(bench, "GET /streams?limit=0", 400).await?;
    asking.ask(bench, "GET /ready", 503).await?;
    asking.ask(bench, "DELETE /drain", 200).await?;
    for wrong in [
        "GET /status?wait=soon",
        "GET /ready?wait=soon",
        "GET /prestop?wait=soon",
        "POST /prestop?wait=-1",
        "POST /force",
        "POST /force?reason=",
    ] {
        asking.ask(bench, wrong, 400).await?;
    }
    let mut client = bench.held("a").await?;
    let refused = asking.ask(bench, "POST /quitquitquit", 503).await?.json()?;
    same(&refused, "state", "serving")?;
    same(&refused, "reason", "streams are in flight")?;
    same(&refused, "holding", 1)?;
    asking.ask(bench, "POST /drain_listeners?inboundonly", 503).await?;
    same(&bench.status().await?, "refused", 2)?;
    asking.ask(bench, "POST /drain", 202).await?;
    bench.until("begin", "done").await?;
    asking.ask(bench, "GET /status", 200).await?;
    asking.ask(bench, "GET /streams?limit=100", 200).await?;
    asking.ask(bench, "DELETE /drain", 200).await?;
    asking.ask(bench, "GET /ready", 503).await?;
    asking.ask(bench, "GET /prestop", 503).await?;
    asking.ask(bench, "POST /prestop?wait=300ms", 503).await?;
    asking.ask(bench, "POST /drain_listeners?graceful&skip_exit", 200).await?;
    bench.release("a", &mut client).await?;
    asking.ask(bench, "GET /prestop?wait", 200).await?;
    asking.ask(bench, "POST /prestop?wait=5", 200).await?;
    asking.ask(bench, "GET /ready?wait=10s", 200).await?;
    asking.ask(bench, "GET /status", 200).await?;
    let passed = asking.ask(bench, "POST /drain_listeners?inboundonly", 200).await?;
    ensure_eq!(passed.text(), "OK\n", "Envoy's own answer");
    asking.ask(bench, "POST /force?reason=the+app%20is+gone", 200).await?;
    asking.ask(bench, "GET /status", 200).await?;
    shows_its_metrics(bench).await
}

async fn shows_ends(asking: &Asking, lab: &Lab) -> Outcome {
    let main = hcm(lab, r#"{"count": {"kinds": true}}"#);
    let bench = &Bench::with(lab, r#"{"end": {"waiting": "end"}}"#, main).await?;
    bench.until("count", "exact").await?;
    let _held = bench.held("a").await?;
    asking.ask(bench, "POST /drain", 202).await?;
    asking.ask(bench, "GET /streams", 200).await?;
    let status = asking.ask(bench, "GET /status", 200).await?.json()?;
    same(&status["ends"], "kinds", json!(["waiting"]))
}

async fn wants_its_secret(asking: &Asking, lab: &Lab) -> Outcome {
    let gate = format!(r#"{{"secret": "{SECRET}", "begin": {{"call": "fail_health_checks"}}}}"#);
    let bench = &Bench::set(lab, &gate).await?;
    for operation in asking.document.operations() {
        let free = operation.node["security"].as_array().is_some_and(Vec::is_empty);
        let example = match (operation.method.as_str(), operation.path) {
            (_, "/force") => "?reason=x",
            _ => "",
        };
        let question = format!("{} {}{example}", operation.method, operation.path);
        match (free, operation.path) {
            (false, _) => asking.ask(bench, &question, 403).await?,
            (true, "/ready") => asking.ask(bench, &question, 503).await?,
            (true, _) => asking.ask(bench, &question, 200).await?,
        };
        asking.ask_with(bench, &question, Some(("origin", "https://page.example")), 403).await?;
    }
    let secret = Some(("x-laststream-secret", SECRET));
    asking.ask_with(bench, "POST /drain", secret, 202).await?;
    bench.until("begin", "done").await?;
    asking.ask_with(bench, "DELETE /drain", secret, 200).await?;
    asking.ask(bench, &format!("GET /prestop?secret={SECRET}&wait=1ms"), 503).await?;
    asking.ask(bench, &format!("POST /drain?secret={SECRET}"), 202).await?;
    Ok(())
}

/// Without an admin interface, and with stand-ins for it: the real one may end before its answer
/// arrives, and its refusals differ from version to version.
async fn passes_on_the_status_of_the_admin_interface(asking: &Asking, lab: &Lab) -> Outcome {
    let sulks = FakeServer::start(|_, _| Ok(Answer::new(400).body("no\n")))?; // refuses all
    for (cluster, status) in [("nowhere", 502), ("app", 200), ("sulks", 400)] {
        let bootstrap = Bootstrap::new().cluster(cluster::h1("sulks", sulks.address));
        let gate = format!(r#"{{"admin": {{"cluster": "{cluster}"}}}}"#);
        let bench = &Bench::upon(bootstrap, lab, &gate, hcm(lab, "{}")).await?;
        asking.ask(bench, "POST /force?reason=x", 200).await?;
        ensure_eq!(
            bench.envoy.stat("wasmcustom.laststream_gate_drain_seconds").await?,
            Some(0),
            "seconds of a drain that never was"
        );
        asking.ask(bench, "POST /drain_listeners", status).await?;
        asking.ask(bench, "POST /quitquitquit", status).await?;
    }
    Ok(())
}

/// Where Envoy alone counts.
async fn lists_requests_by_cluster(asking: &Asking, lab: &Lab) -> Outcome {
    for (cluster, status) in [("prometheus_stats", 200), ("nowhere", 502)] {
        let gate = format!(r#"{{"count": "envoy", "admin": {{"cluster": "{cluster}"}}}}"#);
        let bench = &Bench::with(lab, &gate, routes(Hcm::new("main"))).await?;
        let mut client = bench.held("a").await?;
        let listing = asking.ask(bench, "GET /streams", status).await?.json()?;
        let is_listed = listing["clusters"][0]["cluster"] == "app";
        ensure_eq!(is_listed, status == 200, "{listing}");
        bench.release("a", &mut client).await?;
    }
    Ok(())
}

/// After a drain and a force, Envoy shows each of the gate's metrics and no other.
async fn shows_its_metrics(bench: &Bench) -> Outcome {
    let text = bench.envoy.prometheus().await?;
    let own = text.lines().filter(|line| line.starts_with("laststream_gate_"));
    let shown: BTreeSet<&str> = own.filter_map(|line| line.split(['{', ' ']).next()).collect();
    let mut expected: BTreeSet<&str> = metrics::GATE.iter().map(|(_, name)| *name).collect();
    expected.insert(metrics::CLOSING);
    let counts: Vec<String> =
        CountState::VARIANTS.iter().map(|state| metrics::count(*state)).collect();
    expected.extend(counts.iter().map(String::as_str));
    let kinds: Vec<String> =
        StreamKind::VARIANTS.iter().map(|kind| metrics::evictions(*kind)).collect();
    expected.extend(kinds.iter().map(String::as_str));
    ensure_eq!(shown, expected, "the gate's metrics");
    Ok(())
}

impl Asking {
    async fn ask(&self, bench: &Bench, question: &str, status: u16) -> Outcome<Response> {
        self.ask_with(bench, question, None, status).await
    }

    /// Sends a request such as `POST /drain` and checks its response. HEAD must get the same as
    /// GET.
    async fn ask_with(
        &self,
        bench: &Bench,
        question: &str,
        header: Option<(&str, &str)>,
        status: u16,
    ) -> Outcome<Response> {
        let (method, target) = question.split_once(' ').context("a method and a path")?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let operations = self.document.operations();
        let operation = operations
            .iter()
            .find(|operation| operation.path == path && operation.method == method);
        let operation = operation.with_context(|| format!("{question} is not in the file"))?;
        let (heading, said) = self.document.response(operation, status)?;
        let judged = async |method: &str, has_body: bool| {
            let request = Request::new(method, target);
            let request = header.iter().fold(request, |all, (name, value)| all.header(name, value));
            let answer = once(bench.gate, &request).await?.expect(status)?;
            self.document.judge(said, &answer, has_body)?;
            Ok::<_, Error>(answer)
        };
        let answer = judged(method, true).await.with_context(|| question.to_owned())?;
        ensure_eq!(
            self.document.allows(operation, query)?,
            heading != "400",
            "whether the file allows {question}"
        );
        if method == "GET" {
            judged("HEAD", false).await.with_context(|| format!("HEAD of {question}"))?;
        }
        self.seen.borrow_mut().insert(format!("{method} {path}: {heading}"));
        Ok(answer)
    }

    fn has_seen_all(&self) -> Outcome {
        let mut missing = Vec::new();
        for operation in self.document.operations() {
            for (heading, _) in members(&operation.node["responses"]) {
                let line = format!("{} {}: {heading}", operation.method, operation.path);
                if !self.seen.borrow().contains(&line) {
                    missing.push(line);
                }
            }
        }
        ensure!(missing.is_empty(), "the file says what was never seen: {}", missing.join(", "));
        Ok(())
    }
}
