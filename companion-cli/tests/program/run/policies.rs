//! Sections of a policy that put filters beside the module.

use std::thread;

use kit::prelude::*;
use kit::wait::{blocking, wait_for_blocking};
use kit::websocket::{Frame, WebSocket};

use crate::run::support::{Run, get};

/// Old streams are ended as soon as the drain begins.
const END: &str = "end: {websocket: end, over: 1s, at_age: 1s}\n";

#[test]
fn web_sockets_end_with_a_close_frame_where_the_policy_says_so() -> Outcome {
    for (routes, warns) in [
        ("placement: {envoy: {}}\nwebsockets: {module: /f.wasm, routes: [{prefix: /ws}]}", false),
        ("websockets: {module: oci://h/f:t, routes: [{name: chat}]}", true),
    ] {
        close_code_is_1001(&format!("{END}{routes}"), warns)?;
    }
    Ok(())
}

fn close_code_is_1001(policy: &str, warns: bool) -> Outcome {
    blocking(async {
        let app = Upstream::start().await?;
        let port = app.h1().port().to_string();
        let mut run = Run::start_with_policy(policy, &["--upstream", &port])?;
        assert_eq!(run.stderr().contains("on for every request"), warns, "{}", run.stderr());
        let mut socket = WebSocket::open(run.place("listener"), "/ws").await?;
        socket.echo("hello").await?;
        run.interrupt()?;
        let code = loop {
            socket.send(&Frame::text("hello")).await?;
            if let Some(code) = socket.receive().await?.close_code() {
                break code;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert_eq!(code, 1001, "{policy}");
        drop(socket);
        run.finish()?.expect(0)?;
        Ok(())
    })
}

/// Query strings may hold secrets.
#[test]
fn the_listing_shows_method_host_and_path_if_the_policy_says_so() -> Outcome {
    for (policy, shown) in
        [("streams: {show: path}", json!("GET localhost/delay/3")), ("{}", Value::Null)]
    {
        let run = Run::start_with_policy(policy, &[])?;
        let at = run.place("listener");
        let request = thread::spawn(move || get(at, "/delay/3?token=secret"));
        let listed = wait_for_blocking("the stream", || {
            let listing = get(run.place("gate"), "/streams")?.json()?;
            listing["streams"].get(0).cloned().with_context(|| listing.to_string())
        })?;
        assert_eq!(listed["request"], shown, "{listed}");
        request.join().unwrap()?.expect(200)?;
    }
    Ok(())
}
