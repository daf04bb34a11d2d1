//! The start of a run, and the obstacles to it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use kit::h2;
use kit::prelude::*;
use kit::wait::{blocking, wait_for_blocking};
use kit::websocket::WebSocket;
use kit::wire::{free_port, local};
use laststream_local::envoy::{NEWEST, OLDEST};

use crate::run::support::{Run, fails, send, unwilling};

#[test]
fn the_built_in_app_shows_the_request() -> Outcome {
    for version in [OLDEST, NEWEST] {
        let arguments =
            format!("--envoy-version {version} --logs l --concurrency 1 -- --log-level debug");
        let mut run = Run::start(&arguments.split(' ').collect::<Vec<_>>())?;
        let request =
            Request::get("/a?b=c").header("x-mine", "1").header("x-forwarded-proto", "https");
        let shown = send(run.place("listener"), &request)?.expect(200)?.json()?;
        assert_eq!(
            (&shown["method"], &shown["path"], &shown["headers"]["x-mine"]),
            (&"GET".into(), &"/a?b=c".into(), &"1".into())
        );
        assert_eq!(shown["x_forwarded_proto"], "http", "no untrusted client can claim https");
        assert_eq!(run.get("/status/418")?.status, 418);
        let info = run.admin("/server_info")?;
        assert_eq!(info["command_line_options"]["concurrency"], 1, "{info}");
        assert!(info["version"].as_str().unwrap().contains(&version.to_string()), "{info}");
        assert_eq!(run.status()?["scopes"][0]["begun"], 2);
        run.interrupt()?;
        run.finish()?.expect(0)?;
        assert!(
            std::fs::read_to_string(run.log()).unwrap().contains("[debug]"),
            "the log of a named folder stays, and the arguments were passed on"
        );
    }
    Ok(())
}

#[test]
fn the_policy_of_a_gateway_is_followed() -> Outcome {
    let policy = "module: oci://h/r:floating\n\
                  forwarded_proto: {presets: [gcp], trust: {peers: [127.0.0.0/8]}}\n\
                  drain: {deadline: 9s}\n";
    let run = Run::start_with_policy(policy, &["--logs", "logs"])?;
    run.wait_for_stderr(&format!("export LASTSTREAM_GATE=http://{}\n", run.place("gate")))?;
    assert!(run.log().starts_with(run.folder()), "{}", run.log().display());
    for (said, shown) in [("https", "https"), ("http", "http"), ("gopher", "http")] {
        let request = Request::get("/").header("x-forwarded-proto", said);
        let body = send(run.place("listener"), &request)?.json()?;
        assert_eq!(body["x_forwarded_proto"], shown, "{said}: {body}");
        assert!(body["headers"].get("x-laststream-forwarded-proto").is_none(), "{body}");
    }
    Ok(())
}

#[test]
fn two_runs_at_once_do_not_interfere() -> Outcome {
    let runs: Vec<_> =
        (0..2).map(|_| thread::spawn(|| Run::start(&["--concurrency", "1"]))).collect();
    let runs: Vec<Run> = runs.into_iter().map(|run| run.join().unwrap()).collect::<Outcome<_>>()?;
    for name in ["listener", "gate", "admin", "upstream"] {
        assert_ne!(runs[0].place(name), runs[1].place(name), "{name}");
    }
    assert_ne!(runs[0].log(), runs[1].log());
    for _ in 0..20 {
        assert_eq!(runs[0].get("/")?.status, 200);
    }
    assert_eq!(
        (&runs[0].status()?["scopes"][0]["begun"], &runs[1].status()?["scopes"][0]["begun"]),
        (&20.into(), &0.into())
    );
    Ok(())
}

#[test]
fn a_port_in_use_is_named() -> Outcome {
    let port = free_port()?;
    let taken = TcpListener::bind(local(port))?;
    let port = port.to_string();
    let folder = tempfile::tempdir()?;
    for option in ["--listen", "--gate", "--admin"] {
        fails(folder.path(), &[option, &port], &[])?
            .expect(2)?
            .stderr_contains(&format!("127.0.0.1:{port} is in use"))?;
    }
    drop(taken);
    // By default an Envoy shares ports with other Envoys.
    let run = Run::start(&["--listen", &port])?;
    fails(folder.path(), &["--listen", &port], &[])?
        .expect(2)?
        .stderr_contains(&format!("127.0.0.1:{port} is in use"))?;
    fails(folder.path(), &["--admin", &run.place("gate").port().to_string()], &[])?
        .expect(2)?
        .stderr_contains("in use")?;
    assert_eq!(run.get("/")?.status, 200);
    Ok(())
}

#[test]
fn an_app_that_does_not_listen_yet_is_reported() -> Outcome {
    let at = local(free_port()?);
    let run = Run::start(&["--upstream", &at.to_string()])?;
    run.wait_for_stderr(&format!("no program listens on {at} yet"))?;
    assert_eq!(run.get("/")?.status, 503);
    let app = TcpListener::bind(at)?;
    thread::spawn(move || {
        for mut connection in app.incoming().flatten() {
            let _ = connection.read(&mut [0; 4096]);
            let _ = connection
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nme");
        }
    });
    wait_for_blocking("the app", || {
        ensure_eq!(run.get("/")?.expect(200)?.text(), "me", "the answer");
        Ok(())
    })?;
    Ok(())
}

#[test]
fn web_sockets_reach_the_app_and_are_counted() -> Outcome {
    blocking(async {
        let app = Upstream::start().await?;
        let run = Run::start(&["--upstream", &app.h1().port().to_string()])?;
        let mut socket = WebSocket::open(run.place("listener"), "/ws").await?;
        socket.echo("hello").await?;
        run.wait_for_in_flight(1)?;
        drop(socket);
        run.wait_for_in_flight(0)
    })
}

#[test]
fn calls_of_grpc_reach_an_app_of_http2_and_are_counted() -> Outcome {
    blocking(async {
        let app = Upstream::start().await?;
        let run = Run::start(&["--upstream", &app.h2().to_string(), "--upstream-http2"])?;
        let mut client = h2::Client::connect(run.place("listener")).await?;
        let call = client.open(h2::grpc("/hold/call"), true).await?;
        run.wait_for_in_flight(1)?;
        app.release("call");
        assert_eq!(call.response().await?.status, 200);
        run.wait_for_in_flight(0)
    })
}

#[test]
fn errors_are_reported_at_the_start() -> Outcome {
    let folder = tempfile::tempdir()?;
    std::fs::write(
        folder.path().join("broken.yaml"),
        "drain: {quiet: 1}\ncount: {exclude: {paths: [{exact: no}]}}",
    )?;
    std::fs::write(folder.path().join("slip.yaml"), "count: {exclude: {paths: [{exact: no}]}}")?;
    std::fs::write(folder.path().join("text.wasm"), "text")?;
    std::fs::write(folder.path().join("unwilling.wasm"), unwilling(1 << 20))?;
    std::fs::create_dir(folder.path().join("full"))?;
    std::fs::write(folder.path().join("full/file"), "")?;
    for (arguments, code, words) in [
        (&["--policy", "broken.yaml"][..], 2, "broken.yaml: line 1"),
        (&["--policy", "slip.yaml"], 2, "count.exclude.paths[0]"),
        (&["--policy", "nowhere.yaml"], 2, "nowhere.yaml"),
        (&["--module", "text.wasm"], 2, "text.wasm"),
        (&["--module", "unwilling.wasm"], 2, "Envoy refuses this"),
        (&["--module", "nowhere.wasm"], 64, "nowhere.wasm"),
        (&["--module", "."], 64, "no checkout"),
        (&["--watch"], 64, "--policy"),
        (&["--watch", "--policy", "-"], 64, "standard input"),
        (&["--upstream", "nowhere"], 64, "`nowhere:PORT`"),
        (&["--upstream-http2"], 64, "--upstream"),
        (&["--listen", "everywhere"], 64, "127.0.0.1:10000"),
        (&["--listen", "192.0.2.77:0"], 2, "192.0.2.77:0"),
        (&["--logs", "full"], 2, "not empty"),
        (&["--", "--no-such-option"], 2, "no-such-option"),
    ] {
        fails(folder.path(), arguments, &[])?.expect(code)?.stderr_contains(words)?;
    }
    Ok(())
}
