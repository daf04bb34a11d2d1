//! Drains that start with the stop of Istio's agent, without a hook. The agent is played, because
//! it must answer falsely, too; the mesh tests have the real one.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::bench::{
    Bench, COUNTERS, SOON, gate_filter, main_listener, options, same, with_clusters,
};
use super::{by_envoy, program};
use crate::cases::stage::hcm;
use crate::lab::{Lab, cases};
use kit::prelude::*;
use kit::wire::free_port;
use kit::xds::Xds;

cases! {
    envoy_ends_after_its_last_stream,
    so_it_does_beside_the_program,
    an_idle_envoy_ends_soon,
    no_false_alarm_ends_envoy,
    a_drain_is_called_off_and_begins_again,
    an_operators_drain_ends_no_envoy_beside_its_agent,
    streams_outlive_the_deadline,
    a_drain_goes_on_through_a_reload,
    two_gates_end_envoy_once_both_are_at_zero,
}

/// The behaviour of the agent's port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Port {
    /// As the agent answers `GET /drain`.
    Answers,
    /// Another program's answer.
    Foreign,
    /// It accepts, and says nothing.
    Hangs,
    Closed,
}

/// What listens on the agent's port. A connection that is open outlives the port, as the agent's
/// do, and goes on answering.
pub(super) struct Agent {
    address: SocketAddr,
    port: watch::Sender<Port>,
    /// Connections on which more than one question came.
    reused: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Agent {
    /// Its address is not used by any other test, so nobody takes the port while it is closed.
    fn start(first: Port) -> Outcome<Self> {
        let address = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 77), free_port()?));
        let (port, changes) = watch::channel(first);
        let reused = Arc::<AtomicUsize>::default();
        let task = tokio::spawn(serve(address, changes, Arc::clone(&reused)));
        Ok(Self { address, port, reused, task })
    }

    pub(super) fn becomes(&self, port: Port) {
        self.port.send_replace(port);
    }

    fn cluster(&self) -> Value {
        cluster::h1_once("laststream_agent", self.address)
    }
}

async fn serve(address: SocketAddr, mut changes: watch::Receiver<Port>, reused: Arc<AtomicUsize>) {
    loop {
        let port = *changes.borrow_and_update();
        if port == Port::Closed {
            if changes.changed().await.is_err() {
                return;
            }
            continue;
        }
        let Ok(listener) = TcpListener::bind(address).await else {
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        while *changes.borrow() != Port::Closed {
            tokio::select! {
                Ok((connection, _)) = listener.accept() => {
                    tokio::spawn(answer(connection, *changes.borrow(), Arc::clone(&reused)));
                }
                change = changes.changed() => if change.is_err() { return },
            }
        }
    }
}

async fn answer(mut connection: TcpStream, port: Port, reused: Arc<AtomicUsize>) {
    let text: &[u8] = match port {
        Port::Answers => b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n",
        Port::Foreign => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
        Port::Hangs | Port::Closed => return sleep(SOON).await,
    };
    let (mut request, mut questions) = ([0; 4_096], 0);
    while connection.read(&mut request).await.is_ok_and(|length| length > 0) {
        questions += 1;
        if questions == 2 {
            reused.fetch_add(1, Ordering::Relaxed);
        }
        if connection.write_all(text).await.is_err() {
            return;
        }
    }
}

/// A gate that starts with the agent; with other fields.
fn gate(fields: &str) -> String {
    format!(
        r#"{{
            "starts": "agent", "finish": "quit", "begin": {{"call": "nothing"}},
            "quiet_ms": 300, "admin": {{"agent_cluster": "laststream_agent"}}{fields}
        }}"#
    )
}

const LONG: &str = r#", "deadline_ms": 90000"#;

/// A gate that has seen the agent answer.
async fn bench(lab: &Lab, fields: &str) -> Outcome<(Bench, Agent)> {
    let (bench, agent) = upon(Bootstrap::new(), lab, fields, hcm(lab, "{}")).await?;
    bench.until("count", "exact").await?;
    Ok((bench, agent))
}

async fn upon(bootstrap: Bootstrap, lab: &Lab, fields: &str, main: Hcm) -> Outcome<(Bench, Agent)> {
    let agent = Agent::start(Port::Answers)?;
    let bench = Bench::upon(bootstrap.cluster(agent.cluster()), lab, &gate(fields), main).await?;
    bench.until("agent", "answers").await?;
    Ok((bench, agent))
}

/// A gate that counts like this: `filter` or `envoy`.
pub(super) async fn counting(lab: &Lab, count: &str) -> Outcome<(Bench, Agent)> {
    let fields = format!(r#"{LONG}, "count": "{count}""#);
    let (bench, agent) = match count {
        "envoy" => upon(by_envoy::layers(&[]), lab, &fields, by_envoy::main()).await?,
        _ => upon(Bootstrap::new(), lab, &fields, hcm(lab, "{}")).await?,
    };
    bench.until("counters", COUNTERS).await?;
    Ok((bench, agent))
}

/// Envoy ends by itself, and not before.
async fn ends(bench: &mut Bench) -> Outcome {
    let status = bench.envoy.exited(SOON).await?;
    ensure!(status.success(), "{status}: {}", bench.envoy.tail());
    Ok(())
}

/// Checks for this time that the gate serves.
async fn serves(bench: &mut Bench, time: Duration) -> Outcome {
    let looks = time.as_millis() / 100;
    for _ in 0..looks {
        sleep(Duration::from_millis(100)).await;
        same(&bench.status().await?, "state", "serving")?;
    }
    once(bench.main, &Request::get("/echo")).await?.expect(200)?;
    Ok(())
}

async fn envoy_ends_after_its_last_stream(lab: &Lab) -> Outcome {
    let (mut bench, agent) = bench(lab, LONG).await?;
    let mut client = bench.held("stream").await?;
    serves(&mut bench, Duration::from_secs(2)).await?;
    agent.becomes(Port::Closed);
    same(&bench.until("agent", "stopped").await?, "state", "draining")?;
    sleep(Duration::from_secs(3)).await;
    same(&bench.status().await?, "holding", 1)?;
    once(bench.main, &Request::get("/echo")).await?.expect(200)?;
    bench.release("stream", &mut client).await?;
    ends(&mut bench).await?;
    ensure!(bench.envoy.log_contains("Istio's agent stops"), "{}", bench.envoy.tail());
    ensure!(agent.reused.load(Ordering::Relaxed) == 0, "a question came on an old connection");
    Ok(())
}

async fn so_it_does_beside_the_program(lab: &Lab) -> Outcome {
    let agent = Agent::start(Port::Answers)?;
    let fields = format!(r#"{LONG}, "quiet_ms": 900"#);
    let gate = gate(&fields)
        .replace(r#""quiet_ms": 300, "#, "")
        .replace("laststream_agent", &agent.address.to_string());
    let (mut bench, _program) =
        program::beside(lab, by_envoy::layers(&[]), &gate, by_envoy::main()).await?;
    bench.until("agent", "answers").await?;
    let mut client = bench.held("stream").await?;
    agent.becomes(Port::Closed);
    // Asked without a pause.
    same(&bench.until("agent", "stopped").await?, "state", "draining")?;
    bench.release("stream", &mut client).await?;
    ends(&mut bench).await
}

async fn an_idle_envoy_ends_soon(lab: &Lab) -> Outcome {
    let (mut bench, agent) = bench(lab, LONG).await?;
    let _idle = Client::connect(bench.main).await?;
    agent.becomes(Port::Closed);
    ends(&mut bench).await
}

/// An agent that hangs, another program on its port, and a port that has always been closed.
async fn no_false_alarm_ends_envoy(lab: &Lab) -> Outcome {
    let (mut bench, agent) = bench(lab, LONG).await?;
    for alarm in [Port::Hangs, Port::Foreign] {
        agent.becomes(alarm);
        bench.until("agent", "silent").await?;
        serves(&mut bench, Duration::from_secs(4)).await.with_context(|| format!("{alarm:?}"))?;
    }
    agent.becomes(Port::Closed);
    ends(&mut bench).await?;
    let agent = Agent::start(Port::Foreign)?;
    let bootstrap = Bootstrap::new().cluster(agent.cluster());
    let mut bench = Bench::upon(bootstrap, lab, &gate(LONG), hcm(lab, "{}")).await?;
    serves(&mut bench, Duration::from_secs(2)).await?;
    agent.becomes(Port::Closed);
    serves(&mut bench, Duration::from_secs(4)).await?;
    let status = bench.status().await?;
    same(&status, "agent", "never_answered")?;
    let advice = status["advice"].as_str().unwrap_or_default();
    ensure!(advice.contains("gate.admin.agent_cluster"), "{status}");
    Ok(())
}

async fn a_drain_is_called_off_and_begins_again(lab: &Lab) -> Outcome {
    let (mut bench, agent) = bench(lab, LONG).await?;
    let mut client = bench.held("stream").await?;
    for _ in 0..2 {
        agent.becomes(Port::Closed);
        bench.until("state", "draining").await?;
        agent.becomes(Port::Answers);
        bench.until("state", "serving").await?;
        same(&bench.until("agent", "answers").await?, "state", "serving")?;
    }
    bench.release("stream", &mut client).await?;
    serves(&mut bench, Duration::from_secs(3)).await?;
    agent.becomes(Port::Closed);
    ends(&mut bench).await
}

async fn an_operators_drain_ends_no_envoy_beside_its_agent(lab: &Lab) -> Outcome {
    let (mut bench, agent) = bench(lab, LONG).await?;
    bench.post("/drain").await?.expect(202)?;
    let status = bench.until("state", "drained").await?;
    same(&status, "finish", "due")?;
    sleep(Duration::from_secs(3)).await;
    same(&bench.status().await?, "finish", "due")?;
    bench.delete("/drain").await?.expect(200)?;
    serves(&mut bench, Duration::from_secs(1)).await?;
    bench.post("/drain").await?.expect(202)?;
    agent.becomes(Port::Closed);
    ends(&mut bench).await
}

/// At the deadline it is the agent that ends Envoy.
async fn streams_outlive_the_deadline(lab: &Lab) -> Outcome {
    let (bench, agent) = bench(lab, r#", "deadline_ms": 2000"#).await?;
    let mut client = bench.held("stream").await?;
    agent.becomes(Port::Closed);
    bench.until("state", "expired").await?;
    bench.release("stream", &mut client).await?;
    sleep(Duration::from_secs(2)).await;
    same(&bench.status().await?, "state", "expired")
}

/// What is known of the agent outlives the gate that asked, and so does its drain.
async fn a_drain_goes_on_through_a_reload(lab: &Lab) -> Outcome {
    let (agent, xds) = (Agent::start(Port::Answers)?, Xds::new()?);
    let config = |fields: &str| gate_filter(lab, &gate(fields))["typed_config"].take();
    xds.write_filter("laststream", &lab.stream("{}").typed_config())?;
    xds.write_filter("gate", &config(LONG))?;
    let bootstrap = Bootstrap::new().cluster(agent.cluster());
    let mut bench = Bench::discovered_upon(bootstrap, lab, &xds).await?;
    bench.until("agent", "answers").await?;
    let mut client = bench.held("stream").await?;
    agent.becomes(Port::Closed);
    bench.until("state", "draining").await?;
    let later = config(r#", "deadline_ms": 80000"#);
    xds.replace_filter(&bench.envoy, "gate", &later).await?.accepted()?;
    same(&bench.until("agent", "stopped").await?, "state", "draining")?;
    bench.release("stream", &mut client).await?;
    ends(&mut bench).await
}

/// Each has a scope of its own. The process ends with the streams of both.
async fn two_gates_end_envoy_once_both_are_at_zero(lab: &Lab) -> Outcome {
    let agent = Agent::start(Port::Answers)?;
    let other = Hcm::new("other").filter(lab.stream(r#"{"scope": "outbound"}"#).filter());
    let upstream = Upstream::start().await?;
    let scoped = |scope: &str| gate(&format!(r#"{LONG}, "scopes": ["{scope}"]"#));
    let listener = |name: &str, scope: &str| {
        super::bench::gate_listener_with(name, gate_filter(lab, &scoped(scope)))
    };
    let bootstrap = with_clusters(Bootstrap::new().cluster(agent.cluster()), &upstream)
        .listener(main_listener(lab))
        .listener(Listener::new("other", crate::cases::stage::routes(other)))
        .listener(listener("gate", "gateway"))
        .listener(listener("other-gate", "outbound"));
    let mut bench = Bench::start(lab, upstream, bootstrap, options()).await?;
    bench.until("agent", "answers").await?;
    let mut client = bench.held_at("other", "stream").await?;
    agent.becomes(Port::Closed);
    bench.until("state", "drained").await?;
    sleep(Duration::from_secs(3)).await;
    same(&bench.status().await?, "finish", "due")?;
    bench.release("stream", &mut client).await?;
    ends(&mut bench).await
}
