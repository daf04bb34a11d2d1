//! The gate as a program beside an Envoy without the module: `laststream-hook gate`. What the
//! protocol decides is tested with the module; here is what the program does in Envoy's place.

use std::fs;
use std::io;
use std::sync::{Arc, Mutex};

use kit::admin_proxy::{AdminFault, AdminProxy, CallHandling};
use kit::bootstrap::filters::Wasm;
use kit::bootstrap::only_stats_with_prefixes;
use kit::locked;
use kit::prelude::*;
use kit::process::{Process, guarded};
use kit::user::hook;
use kit::wire::{free_port, local};
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::{TcpStream, UnixListener};
use tokio::time::{Instant, sleep};

use super::app::{THERE, stays};
use super::bench::{Bench, SOON, options, same};
use super::by_envoy::{
    clients, ends_after_all_answers, handles_a_websocket, holds_a_request, layers, main,
};
use super::unwritten::{POSITIONS, no_way_out_before_the_response, slow_filter};
use super::watch::lets_nothing_out;
use crate::cases::stage::{clusters, routes};
use crate::lab::{Lab, cases, test_deaths_module};

cases! {
    a_request_holds_until_its_client_has_the_answer,
    a_websocket_holds_unless_it_is_exempt,
    a_worker_that_stands_still_at_the_end_of_a_stream_holds,
    so_it_does_in_each_position,
    an_envoy_that_was_stopped_holds,
    what_is_not_envoy_opens_nothing,
    without_watchdog_statistics_zero_lasts_longer,
    a_short_quiet_period_is_refused,
    the_admin_interface_is_a_socket,
    a_signal_begins_the_drain_and_ends_the_program,
    the_deadline_opens_the_gate_and_a_cancel_closes_it,
    an_envoy_that_was_started_anew_is_not_drained,
    what_the_app_has_begun_is_answered_before_the_end,
    it_waits_until_the_app_has_gone,
    envoy_ends_with_its_parent_after_the_last_answer,
    the_deadline_and_a_second_signal_end_envoy,
}

pub(super) const GATE: &str = r#"{"quiet_ms": 900, "deadline_ms": 90000}"#;
/// A worker that stands still is noticed so soon that the quiet period can be short.
const ALERT: &str = "0.05s";

/// The program's words, for a gate with these fields at this address.
pub(super) fn words(envoy: &str, gate: &str, address: SocketAddr) -> Outcome<Vec<String>> {
    let gate = gate.replacen('{', r#"{"hosts": ["test.local"], "#, 1);
    let json = format!(r#"{{"role": "gate", "gate": {gate}}}"#);
    let (program, listen) = (hook()?.display().to_string(), address.to_string());
    let words = ["gate", "--envoy", envoy, "--listen", &listen, "--config-json", &json];
    Ok([program].into_iter().chain(words.map(String::from)).collect())
}

/// Starts the program beside this admin interface.
pub(super) fn start(envoy: &str, gate: &str, address: SocketAddr) -> Outcome<Process> {
    let words = words(envoy, gate, address)?;
    Process::capture(std::process::Command::new(&words[0]).args(&words[1..]))
}

/// An Envoy with this connection manager, without a gate.
async fn envoy(lab: &Lab, bootstrap: Bootstrap, main: Hcm) -> Outcome<Bench> {
    let upstream = Upstream::start().await?;
    let bootstrap = clusters(bootstrap, &upstream)
        .listener(Listener::new("main", main).direction("INBOUND"))
        .build();
    let envoy = Envoy::start(&lab.envoy, bootstrap, options()).await?;
    let main = envoy.address("main").await?;
    Ok(Bench { upstream, envoy, main, gate: main })
}

/// An Envoy, and the program beside it that has heard from it.
pub(super) async fn beside(
    lab: &Lab,
    bootstrap: Bootstrap,
    gate: &str,
    main: Hcm,
) -> Outcome<(Bench, Process)> {
    let bench = Bench { gate: local(free_port()?), ..envoy(lab, bootstrap, main).await? };
    let program = start(&bench.envoy.admin().to_string(), gate, bench.gate)?;
    same(&bench.until("count", "envoy").await?, "holding", 0)?;
    Ok((bench, program))
}

fn alert() -> Bootstrap {
    layers(&[]).with("/watchdogs/worker_watchdog/miss_timeout", json!(ALERT))
}

async fn a_request_holds_until_its_client_has_the_answer(lab: &Lab) -> Outcome {
    let (bench, _program) = beside(lab, layers(&[]), GATE, main()).await?;
    holds_a_request(&bench).await
}

async fn a_websocket_holds_unless_it_is_exempt(lab: &Lab) -> Outcome {
    for (long_lived, holds) in [("wait", true), ("exempt", false)] {
        let gate = GATE.replacen('{', &format!(r#"{{"long_lived": "{long_lived}", "#), 1);
        let (bench, _program) = beside(lab, layers(&[]), &gate, main()).await?;
        handles_a_websocket(&bench, holds).await?;
    }
    Ok(())
}

async fn a_worker_that_stands_still_at_the_end_of_a_stream_holds(lab: &Lab) -> Outcome {
    let (bench, _program) = beside(lab, layers(&[]), GATE, stalling(lab)?).await?;
    outlasts_a_stall(&bench).await
}

/// A filter whose worker stands still on request.
fn stalling(lab: &Lab) -> Outcome<Hcm> {
    let module = test_deaths_module()?;
    let stalls = lab.stream(r#"{"scope": "outbound"}"#);
    let stalls = Wasm { module: &module, ..stalls };
    Ok(routes(Hcm::new("main").filter(stalls.filter())))
}

async fn outlasts_a_stall(bench: &Bench) -> Outcome {
    let request = Request::get("/hold/a").header("x-laststream-stall", "3000");
    let mut client = Client::with_request(bench.main, &request).await?;
    bench.upstream.wait_held("a", 1, SOON).await?;
    let hook = bench.hook();
    bench.until("state", "draining").await?;
    bench.upstream.release("a");
    client.response("GET").await?.expect(200)?;
    let answered = Instant::now();
    ensure!(!hook.is_finished(), "the hook was let go before the client had its answer");
    hook.await??.expect(200)?;
    ensure!(answered.elapsed() < SOON, "a hold without an end");
    Ok(())
}

async fn so_it_does_in_each_position(lab: &Lab) -> Outcome {
    for (callback, _) in POSITIONS.into_iter().filter(|(_, is_behind)| *is_behind) {
        let (slow, _folder) = slow_filter(lab, callback)?;
        let main = routes(Hcm::new("main").filter(slow));
        let gate = GATE.replacen('{', r#"{"begin": {"call": "nothing"}, "#, 1);
        let (bench, _program) = beside(lab, layers(&[]), &gate, main).await?;
        let held = no_way_out_before_the_response(&bench, false).await;
        held.with_context(|| callback.to_owned())?;
    }
    Ok(())
}

/// Envoy is stopped again and again, also between the end of a stream and its last bytes.
async fn an_envoy_that_was_stopped_holds(lab: &Lab) -> Outcome {
    for (seed, seconds) in [(0, 1), (1, 2), (2, 5), (3, 30)] {
        let (bench, _program) = beside(lab, layers(&[]), GATE, main()).await?;
        let mut client = bench.held("a").await?;
        let hook = bench.hook();
        bench.until("state", "draining").await?;
        bench.upstream.release("a");
        let envoy = Pid::from_raw(i32::try_from(bench.envoy.pid())?).context("a pid")?;
        let mut rng = fastrand::Rng::with_seed(seed);
        sleep(Duration::from_micros(rng.u64(0..3_000))).await;
        kill_process(envoy, Signal::STOP)?;
        sleep(Duration::from_millis(seconds * 1_000 + rng.u64(0..1_000))).await;
        ensure!(!hook.is_finished(), "the hook was let go by an Envoy that stands still");
        kill_process(envoy, Signal::CONT)?;
        client.response("GET").await?.expect(200)?;
        ensure!(!hook.is_finished(), "the hook was let go before the client had its answer");
        hook.await??.expect(200)?;
    }
    Ok(())
}

async fn what_is_not_envoy_opens_nothing(lab: &Lab) -> Outcome {
    let slow = AdminFault::Slow(Duration::from_millis(2_500));
    let unavailable = AdminFault::Unavailable(Duration::ZERO);
    for fault in [slow, AdminFault::Empty, AdminFault::Foreign, AdminFault::Half, unavailable] {
        let trouble = Arc::<Mutex<Option<AdminFault>>>::default();
        let now = Arc::clone(&trouble);
        let proxy = AdminProxy::start(move |_, _| {
            locked(&now).map_or(CallHandling::Forward, CallHandling::Fault)
        })?;
        let bench = Bench { gate: local(free_port()?), ..envoy(lab, layers(&[]), main()).await? };
        proxy.forward_to(&bench.envoy);
        let gate = r#"{"quiet_ms": 900, "deadline_ms": 90000, "admin": {"timeout_ms": 200}}"#;
        let _program = start(&proxy.address().to_string(), gate, bench.gate)?;
        bench.until("count", "envoy").await?;
        *locked(&trouble) = Some(fault);
        let mut client = bench.held("a").await?;
        lets_nothing_out(&bench, 6).await.with_context(|| format!("{fault:?}"))?;
        bench.release("a", &mut client).await?;
        *locked(&trouble) = None;
        bench.hook().await??.expect(200)?;
    }
    Ok(())
}

/// A stall is not seen then, and two flushes of statistics take longer than it.
async fn without_watchdog_statistics_zero_lasts_longer(lab: &Lab) -> Outcome {
    let kept =
        ["http", "listener", "wasmcustom.laststream_", "server.concurrency", "server.uptime"];
    let bootstrap = layers(&[]).stats_matcher(only_stats_with_prefixes(&kept));
    let bench = Bench { gate: local(free_port()?), ..envoy(lab, bootstrap, stalling(lab)?).await? };
    let program = start(&bench.envoy.admin().to_string(), GATE, bench.gate)?;
    bench.until("state", "serving").await?;
    outlasts_a_stall(&bench).await?;
    let log = program.stderr();
    ensure!(log.contains("does not export server.worker_N.watchdog_miss"), "{log}");
    Ok(())
}

async fn a_short_quiet_period_is_refused(lab: &Lab) -> Outcome {
    let bench = envoy(lab, layers(&[]), main()).await?;
    let (folder, envoy) = (tempfile::tempdir()?, bench.envoy.admin().to_string());
    let file = folder.path().join("gate.json");
    fs::write(&file, r#"{"role": "gate", "gate": {"quiet_ms": 899}}"#)?;
    let mut command = std::process::Command::new(hook()?);
    command.args(["gate", "--envoy", &envoy, "--listen", &local(free_port()?).to_string()]);
    let mut program = Process::capture(command.arg("--config").arg(file))?;
    let status = program.wait(SOON).await?;
    ensure_eq!(status.code(), Some(2), "exit code");
    // Its last words are read a moment after its end.
    let look = async || {
        let log = program.stderr();
        ensure!(log.contains("set `quiet_ms` to 900 or more"), "{log}");
        Ok(())
    };
    wait_for(SOON, "the refusal", look).await
}

async fn the_admin_interface_is_a_socket(lab: &Lab) -> Outcome {
    let bench = Bench { gate: local(free_port()?), ..envoy(lab, layers(&[]), main()).await? };
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("admin.sock");
    let (listener, admin) = (UnixListener::bind(&path)?, bench.envoy.admin());
    let relay = tokio::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await?;
            tokio::spawn(async move {
                let mut far = TcpStream::connect(admin).await?;
                tokio::io::copy_bidirectional(&mut near, &mut far).await
            });
        }
        #[expect(unreachable_code, reason = "the type of `?`")]
        io::Result::Ok(())
    });
    let _program = start(&format!("unix:{}", path.display()), GATE, bench.gate)?;
    bench.until("count", "envoy").await?;
    holds_a_request(&bench).await?;
    relay.abort();
    Ok(())
}

async fn a_signal_begins_the_drain_and_ends_the_program(lab: &Lab) -> Outcome {
    let (bench, mut program) = beside(lab, layers(&[]), GATE, main()).await?;
    let mut client = bench.held("a").await?;
    program.signal(Signal::TERM)?;
    bench.until("state", "draining").await?;
    let hook = bench.hook();
    sleep(Duration::from_secs(2)).await;
    ensure!(!hook.is_finished(), "the hook was let go with a request in flight");
    bench.release("a", &mut client).await?;
    hook.await??.expect(200)?;
    let status = program.wait(SOON).await?;
    ensure_eq!(status.code(), Some(0), "exit code: {}", program.stderr());
    // Envoy has ended before the program is told to.
    let (mut bench, mut program) = beside(lab, layers(&[]), GATE, main()).await?;
    bench.envoy.kill()?;
    program.signal(Signal::TERM)?;
    ensure_eq!(program.wait(PATIENCE).await?.code(), Some(0), "exit code");
    Ok(())
}

async fn the_deadline_opens_the_gate_and_a_cancel_closes_it(lab: &Lab) -> Outcome {
    let gate = r#"{"quiet_ms": 900, "deadline_ms": 3000, "begin": {"call": "fail_health_checks"}}"#;
    let (bench, _program) = beside(lab, layers(&[]), gate, main()).await?;
    let mut client = bench.held("a").await?;
    bench.post("/drain").await?.expect(202)?;
    bench.until("begin", "done").await?;
    same(&bench.delete("/drain").await?.expect(200)?.json()?, "state", "serving")?;
    let answer = bench.hook().await??.expect(200)?.json()?;
    same(&answer, "state", "expired")?;
    let metrics = once(bench.gate, &Request::get("/metrics")).await?.expect(200)?.text();
    ensure!(metrics.contains("\nlaststream_gate_expired_total 1\n"), "{metrics}");
    bench.release("a", &mut client).await
}

async fn an_envoy_that_was_started_anew_is_not_drained(lab: &Lab) -> Outcome {
    let port = free_port()?;
    let fixed = || layers(&[]).with("/admin/address/socket_address/port_value", json!(port));
    let (mut bench, _program) = beside(lab, fixed(), GATE, main()).await?;
    let _client = bench.held("a").await?;
    bench.post("/drain").await?.expect(202)?;
    for _ in 0..100 {
        bench.envoy.admin_get("/ready").await?;
    }
    bench.until("holding", 1).await?;
    bench.envoy.kill()?;
    let anew = envoy(lab, fixed(), main()).await?;
    let bench = Bench { gate: bench.gate, ..anew };
    bench.until("state", "serving").await?;
    bench.until("count", "envoy").await?;
    holds_a_request(&bench).await
}

const QUITS: &str = r#"{"quiet_ms": 300, "deadline_ms": 90000, "finish": "quit"}"#;

async fn what_the_app_has_begun_is_answered_before_the_end(lab: &Lab) -> Outcome {
    let (mut bench, _program) = beside(lab, alert(), QUITS, main()).await?;
    let clients = clients(bench.main);
    sleep(Duration::from_secs(1)).await;
    bench.post("/drain").await?.expect(202)?;
    ends_after_all_answers(&mut bench, clients).await
}

async fn it_waits_until_the_app_has_gone(lab: &Lab) -> Outcome {
    let app = Upstream::start().await?;
    let gate = GATE.replacen('{', &format!(r#"{{"app": {{"cluster": "{}"}}, "#, app.h1()), 1);
    let (bench, _program) = beside(lab, layers(&[]), &gate, main()).await?;
    let hook = bench.hook();
    stays(&bench, Duration::from_secs(2), THERE).await?;
    ensure!(!hook.is_finished(), "the hook was let go while the app was there");
    drop(app);
    same(&hook.await??.expect(200)?.json()?, "state", "drained")
}

/// An Envoy that the program has started.
async fn child(lab: &Lab, bootstrap: Bootstrap, fields: &str) -> Outcome<Bench> {
    let (upstream, port, gate) = (Upstream::start().await?, free_port()?, local(free_port()?));
    let bootstrap = clusters(bootstrap, &upstream)
        .with("/admin/address/socket_address/port_value", json!(port))
        .listener(Listener::new("main", main()).direction("INBOUND"))
        .build();
    let mut under = words(&local(port).to_string(), fields, gate)?;
    under.push("--".into());
    let guard = guarded("true");
    let guard = [guard.get_program()].into_iter().chain(guard.get_args());
    let words: Vec<String> = guard.map(|word| word.to_string_lossy().into_owned()).collect();
    under.extend_from_slice(&words[..words.len() - 1]);
    let envoy = Envoy::start(&lab.envoy, bootstrap, Options { under, ..options() }).await?;
    let main = envoy.address("main").await?;
    let bench = Bench { upstream, envoy, main, gate };
    bench.until("count", "envoy").await?;
    Ok(bench)
}

async fn envoy_ends_with_its_parent_after_the_last_answer(lab: &Lab) -> Outcome {
    let mut bench = child(lab, alert(), QUITS).await?;
    let clients = clients(bench.main);
    sleep(Duration::from_secs(4)).await; // the latch was tried meanwhile
    bench.envoy.terminate()?;
    ends_after_all_answers(&mut bench, clients).await?;
    // With the latch, and without one.
    for bootstrap in [alert(), Bootstrap::new()] {
        let mut bench = child(lab, bootstrap, GATE).await?;
        let mut client = bench.held("a").await?;
        bench.envoy.terminate()?;
        let hook = bench.hook();
        bench.until("state", "draining").await?;
        bench.release("a", &mut client).await?;
        hook.await??.expect(200)?; // at the end of the quiet period
        let opened = Instant::now();
        let status = bench.envoy.exited(SOON).await?;
        ensure_eq!(status.code(), Some(0), "Envoy's exit code");
        let more = opened.elapsed();
        say(&format!("Envoy has ended {more:?} after the quiet period"));
    }
    Ok(())
}

async fn the_deadline_and_a_second_signal_end_envoy(lab: &Lab) -> Outcome {
    let mut bench = child(lab, alert(), r#"{"quiet_ms": 300, "deadline_ms": 2000}"#).await?;
    let _client = bench.held("a").await?;
    bench.envoy.terminate()?;
    let status = bench.envoy.exited(SOON).await?;
    ensure_eq!(status.code(), Some(0), "Envoy's exit code at SIGTERM: {}", bench.envoy.tail());
    let mut bench = child(lab, alert(), GATE).await?;
    let _client = bench.held("a").await?;
    bench.envoy.terminate()?;
    bench.until("holding", 1).await?;
    bench.envoy.terminate()?;
    let began = Instant::now();
    bench.envoy.exited(SOON).await?;
    ensure!(began.elapsed() < Duration::from_secs(5), "the second signal was held");
    Ok(())
}
