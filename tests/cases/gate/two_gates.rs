//! Two gates on one Envoy: each opens by its own streams and requests, independently of the other.

use tokio::time::sleep;

use super::bench::{Bench, SOON, bootstrap, gate_listener_with, options, same};
use super::deaths::{hold, kill, with_test_deaths};
use super::watch::{holds_until_answered, lets_nothing_out, opens};
use crate::cases::stage::routes;
use crate::lab::{Lab, cases};
use kit::bootstrap::filters::Wasm;
use kit::prelude::*;

cases! {
    a_drain_of_one_gate_opens_no_other_scope,
    a_drain_of_one_gate_opens_no_other_name,
    gates_of_different_scopes_open_side_by_side => |lab| both_open(lab, DIFFERENT),
    gates_of_different_names_open_side_by_side => |lab| both_open(lab, SAME),
    gates_of_different_scopes_hold_side_by_side,
    a_quit_signal_waits_for_the_other_scope,
    the_last_call_waits_for_the_other_scope,
    a_leak_of_a_scope_without_a_gate_refuses_no_quit_for_ever,
    a_leak_of_a_scope_without_a_gate_holds_no_last_call_for_ever,
}

const SAME: [&str; 2] = [r#""inbound""#, r#""inbound""#];
const DIFFERENT: [&str; 2] = [r#""inbound""#, r#""outbound""#];

/// Two gates on one Envoy. `bench.gate` is the first, until they are swapped.
struct Pair {
    bench: Bench,
    other: SocketAddr,
    outbound: SocketAddr,
}

impl Pair {
    async fn set(lab: &Lab, scopes: [&str; 2]) -> Outcome<Self> {
        Self::with(lab, scopes, "nothing").await
    }

    /// [`Pair::set`] with this last call of the first gate.
    async fn with(lab: &Lab, scopes: [&str; 2], finish: &str) -> Outcome<Self> {
        let upstream = Upstream::start().await?;
        let bootstrap = bootstrap(&upstream)
            .listener(counting(lab, "main", "inbound"))
            .listener(counting(lab, "outbound", "outbound"))
            .listener(gate(lab, "gate", scopes[0], finish))
            .listener(gate(lab, "other-gate", scopes[1], "nothing"));
        let bench = Bench::start(lab, upstream, bootstrap, options()).await?;
        let (other, outbound) =
            (bench.envoy.address("other-gate").await?, bench.envoy.address("outbound").await?);
        let mut pair = Self { bench, other, outbound };
        for _ in 0..2 {
            pair.bench.until("count", "exact").await?;
            pair.turn();
        }
        Ok(pair)
    }

    /// Swaps the two gates.
    fn turn(&mut self) {
        std::mem::swap(&mut self.bench.gate, &mut self.other);
    }

    async fn held_outbound(&self, key: &str) -> Outcome<Client> {
        self.bench.held_at(self.outbound, key).await
    }
}

fn counting(lab: &Lab, name: &str, scope: &str) -> Listener {
    let configuration = format!(r#"{{"scope": "{scope}"}}"#);
    let filter = Wasm { name, ..lab.stream(&configuration) }.filter();
    Listener::new(name, routes(Hcm::new(&format!("{scope}_0.0.0.0_80")).filter(filter)))
        .direction(&scope.to_uppercase())
}

/// Both gates run in the same VM.
fn gate(lab: &Lab, name: &str, scopes: &str, finish: &str) -> Listener {
    let gate = format!(
        r#"{{
            "quiet_ms": 300, "deadline_ms": 90000, "scopes": [{scopes}],
            "begin": {{"call": "nothing"}}, "hosts": ["test.local"], "finish": "{finish}"
        }}"#
    );
    let configuration = format!(r#"{{"role": "gate", "gate": {gate}}}"#);
    let filter = Wasm { name, vm_configuration: "gate", ..lab.stream(&configuration) }.filter();
    gate_listener_with(name, filter)
}

/// The other gate got no request for a drain, and has a stream in flight.
async fn a_drain_of_one_gate_opens_no_other_scope(lab: &Lab) -> Outcome {
    let mut pair = Pair::set(lab, DIFFERENT).await?;
    let client = pair.held_outbound("out").await?;
    for _ in 0..3 {
        opens(&pair.bench).await?;
        pair.turn();
        stays_serving(&pair.bench).await?;
        pair.turn();
        pair.bench.delete("/drain").await?.expect(200)?;
    }
    opens(&pair.bench).await?;
    pair.turn();
    holds_until_answered(&pair.bench, "out", client).await
}

async fn a_drain_of_one_gate_opens_no_other_name(lab: &Lab) -> Outcome {
    let mut pair = Pair::set(lab, SAME).await?;
    opens(&pair.bench).await?;
    pair.turn();
    stays_serving(&pair.bench).await?;
    let client = pair.bench.held("in").await?;
    stays_serving(&pair.bench).await?;
    holds_until_answered(&pair.bench, "in", client).await
}

async fn stays_serving(bench: &Bench) -> Outcome {
    for _ in 0..5 {
        bench.get("/ready").await?.expect(503)?;
        same(&bench.status().await?, "state", "serving")?;
    }
    Ok(())
}

async fn both_open(lab: &Lab, scopes: [&str; 2]) -> Outcome {
    let mut pair = Pair::set(lab, scopes).await?;
    for _ in 0..2 {
        pair.bench.get("/prestop").await?.expect(503)?;
        pair.turn();
    }
    for _ in 0..2 {
        opens(&pair.bench).await?;
        pair.turn();
    }
    Ok(())
}

/// Each gate has a separate stream, and both are polled.
async fn gates_of_different_scopes_hold_side_by_side(lab: &Lab) -> Outcome {
    let mut pair = Pair::set(lab, DIFFERENT).await?;
    let (incoming, outgoing) = (pair.bench.held("in").await?, pair.held_outbound("out").await?);
    for _ in 0..2 {
        lets_nothing_out(&pair.bench, 3).await?;
        pair.turn();
    }
    holds_until_answered(&pair.bench, "in", incoming).await?;
    pair.turn();
    holds_until_answered(&pair.bench, "out", outgoing).await
}

/// The process ends with the streams of all scopes. The gate itself opens: its own count is zero.
async fn a_quit_signal_waits_for_the_other_scope(lab: &Lab) -> Outcome {
    let mut pair = Pair::set(lab, DIFFERENT).await?;
    let client = pair.held_outbound("out").await?;
    opens(&pair.bench).await?;
    for _ in 0..8 {
        let refused = pair.bench.post("/quitquitquit").await?.expect(503)?.json()?;
        same(&refused, "reason", "streams of a scope that another gate waits for are in flight")?;
    }
    quits_after(&mut pair, client, async |bench| drop(bench.post("/quitquitquit").await)).await
}

async fn the_last_call_waits_for_the_other_scope(lab: &Lab) -> Outcome {
    let mut pair = Pair::with(lab, DIFFERENT, "quit").await?;
    let client = pair.held_outbound("out").await?;
    opens(&pair.bench).await?;
    for _ in 0..20 {
        sleep(Duration::from_millis(100)).await;
        let status = pair.bench.status().await?;
        same(&status, "state", "drained")?;
        ensure!(status["sealed"].is_null(), "the last call was sent beside a stream: {status}");
    }
    quits_after(&mut pair, client, async |_| {}).await
}

/// The VM of the outbound filter dies with streams in flight, and no gate waits for its scope: its
/// gauge shows them for ever.
async fn outbound_leaks(lab: &Lab, finish: &str) -> Outcome<Pair> {
    let lab = with_test_deaths(lab)?;
    let mut pair = Pair::with(&lab, [r#""inbound""#, r#""inbound""#], finish).await?;
    pair.bench.main = pair.outbound;
    let held = hold(&pair.bench, "out", 8).await?;
    kill(&pair.bench, "abort").await?;
    pair.bench.upstream.release("out");
    drop(held);
    let active = "http.outbound_0.0.0.0_80.downstream_rq_active";
    pair.bench.envoy.wait_for_stat(active, 0, SOON).await?;
    let gauge = "wasmcustom.laststream_streams_in_flight_outbound";
    let leak = pair.bench.envoy.stat(gauge).await?;
    ensure!(leak > Some(0), "nothing has leaked: {leak:?}");
    Ok(pair)
}

async fn a_leak_of_a_scope_without_a_gate_refuses_no_quit_for_ever(lab: &Lab) -> Outcome {
    let mut pair = outbound_leaks(lab, "nothing").await?;
    ends(&mut pair, async |bench| drop(bench.post("/quitquitquit").await)).await
}

async fn a_leak_of_a_scope_without_a_gate_holds_no_last_call_for_ever(lab: &Lab) -> Outcome {
    let mut pair = outbound_leaks(lab, "quit").await?;
    pair.bench.post("/drain").await?.expect(202)?;
    ends(&mut pair, async |_| {}).await
}

/// Envoy lives as long as the client of the other scope waits, and ends after its answer.
async fn quits_after(
    pair: &mut Pair,
    mut client: Client,
    signal: impl AsyncFnMut(&Bench),
) -> Outcome {
    ensure!(pair.bench.envoy.is_alive(), "Envoy has ended beside a stream");
    pair.bench.release("out", &mut client).await?;
    ends(pair, signal).await
}

async fn ends(pair: &mut Pair, mut signal: impl AsyncFnMut(&Bench)) -> Outcome {
    let ends = async || {
        signal(&pair.bench).await;
        ensure!(!pair.bench.envoy.is_alive(), "Envoy lives");
        Ok(())
    };
    wait_for(SOON, "the end of Envoy", ends).await
}
