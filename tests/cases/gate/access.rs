//! Access control of the gate: no browser's page, no client with a forged PROXY header, and with a
//! secret only a client that has it. docs/threat-model.md names these cases.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use super::bench::{Bench, bootstrap, gate_filter, gate_listener, same, says};
use crate::lab::{Lab, cases};
use kit::admin_cluster::admin_cluster;
use kit::h1::Connect;
use kit::outcome::MachineLacks;
use kit::prelude::*;

const SECRET: &str = "open-sesame/0123456789";

cases! {
    browsers_change_nothing,
    takes_the_secret_in_the_url_of_a_hook,
    a_secret_in_the_url_is_never_shown,
    proxy_protocol_forges_no_loopback_address,
    refuses_changes_from_the_network_without_a_secret,
}

/// Requests that change something or show requests.
const PROTECTED: [(&str, &str); 7] = [
    ("GET", "/streams"),
    ("GET", "/prestop"),
    ("POST", "/drain"),
    ("DELETE", "/drain"),
    ("POST", "/force?reason=x"),
    ("POST", "/quitquitquit"),
    ("POST", "/drain_listeners?graceful&skip_exit"),
];

/// The headers that show where a request comes from.
type Marks<'m> = &'m [(&'m str, &'m str)];

fn marked(method: &str, path: &str, marks: Marks<'_>) -> Request {
    let request = Request::new(method, path).host("127.0.0.1:16091");
    marks.iter().fold(request, |request, (name, value)| match *name {
        "host" => request.host(value),
        name => request.header(name, value),
    })
}

/// The answer is 403. Its reason names the fix, and it shows nothing of the gate's state.
async fn is_refused(gate: SocketAddr, request: &Request, way_out: &str) -> Outcome {
    let answer = once(gate, request).await?.expect(403)?;
    let body = answer.json()?;
    says(&body, "reason", way_out)?;
    ensure_eq!(body.as_object().map(serde_json::Map::len), Some(1), "the fields of {body}");
    Ok(())
}

/// One request for each rule: who sends it, a word of the refusal, and whether the status is
/// refused, too. The filter's unit tests have all marks of a browser and all forms of a host.
const BROWSERS: [(&str, Marks<'_>, &str, bool); 6] = [
    ("a page", &[("origin", "http://evil.example")], "browser", true),
    ("another site", &[("sec-fetch-site", "cross-site")], "browser", true),
    ("DNS rebinding", &[("host", "localhost.evil.example:16091")], "gate.hosts", true),
    ("an address of the loopback interface", &[("host", "0.0.0.0:16091")], "gate.hosts", true),
    ("the address bar", &[("host", "localhost:16091"), ("sec-fetch-site", "none")], "brow", false),
    (
        "an image under a name of `gate.hosts`, where no browser sends `Sec-Fetch-Site`",
        &[("host", "Gate.internal:16091"), ("user-agent", "Mozilla/5.0 (X11) Chrome/140.0.0.0")],
        "a browser sent this",
        false,
    ),
];

async fn browsers_change_nothing(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, r#"{"hosts": ["test.local", "gate.internal"]}"#).await?;
    for (browser, marks, way_out, reads_nothing) in BROWSERS {
        for (method, path) in PROTECTED {
            let refused = is_refused(bench.gate, &marked(method, path, marks), way_out).await;
            refused.with_context(|| format!("{method} {path} from {browser}"))?;
        }
        let status = marked("GET", "/status", marks);
        match reads_nothing {
            true => is_refused(bench.gate, &status, way_out).await?,
            false => drop(once(bench.gate, &status).await?.expect(200).context(browser)?),
        }
    }
    same(&bench.status().await?, "state", "serving")?;
    let own = [("host", "gate.internal.:80")];
    once(bench.gate, &marked("POST", "/drain", &own)).await?.expect(202).map(drop)
}

async fn takes_the_secret_in_the_url_of_a_hook(lab: &Lab) -> Outcome {
    let gate = format!(r#"{{"secret": "{SECRET}", "begin": {{"call": "nothing"}}}}"#);
    let bench = Bench::set(lab, &gate).await?;
    let ask =
        async |method: &str, path: String| once(bench.gate, &marked(method, &path, &[])).await;
    ask("GET", "/prestop?secret=open-sesame%2F012345678".to_owned()).await?.expect(403)?;
    same(&bench.status().await?, "state", "serving")?;
    for right in ["secret=open-sesame/0123456789", "wait=1ms&secret=open%2Dsesame%2f0123456789"] {
        ask("GET", format!("/prestop?{right}")).await?.expect(503)?;
        ask("POST", format!("/drain?{right}")).await?.expect(202)?;
    }
    let header = marked("DELETE", "/drain", &[("x-laststream-secret", SECRET)]);
    once(bench.gate, &header).await?.expect(200).map(drop)
}

async fn a_secret_in_the_url_is_never_shown(lab: &Lab) -> Outcome {
    let gate = format!(r#"{{"secret": "{SECRET}", "finish": "drain_agent"}}"#);
    let bench = Bench::set(lab, &gate).await?;
    let with = |method: &str, path: &str| marked(method, path, &[("x-laststream-secret", SECRET)]);
    let mut client = bench.held("a").await?;
    let mut said = String::new();
    for (method, path) in [
        ("GET", "/prestop"),
        ("POST", "/prestop"),
        ("POST", "/drain"),
        ("DELETE", "/drain"),
        ("POST", "/quitquitquit"),
    ] {
        for secret in [SECRET, "another-secret-0123456789"] {
            said += &once(bench.gate, &marked(method, &format!("{path}?secret={secret}"), &[]))
                .await?
                .text();
        }
    }
    for path in ["/streams", "/status"] {
        said += &once(bench.gate, &with("GET", path)).await?.expect(200)?.text();
    }
    said += &bench.envoy.admin_get("/stats").await?.text();
    said += &bench.envoy.log();
    for secret in [SECRET, "another-secret"] {
        ensure!(!said.contains(secret), "`{secret}` was told");
    }
    bench.release("a", &mut client).await
}

/// An address of this machine that is not the loopback interface's; nothing is sent.
fn outer_address() -> Outcome<Ipv4Addr> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    match socket.connect("198.51.100.1:9") {
        Err(error) if error.kind() == ErrorKind::NetworkUnreachable => {
            let lack = "this machine has only the address 127.0.0.1; connect it to a network";
            return Err(MachineLacks(lack.to_owned()).into());
        }
        connected => connected.context("an address of this machine")?,
    }
    match socket.local_addr()? {
        SocketAddr::V4(address) => Ok(*address.ip()),
        SocketAddr::V6(address) => bail!("{address} is no IPv4 address"),
    }
}

/// A gate on all addresses, with or without the PROXY protocol.
async fn exposed(lab: &Lab, has_proxy_protocol: bool) -> Outcome<(Envoy, SocketAddr, SocketAddr)> {
    let listener = gate_listener(lab, r#"{"begin": {"call": "nothing"}}"#)
        .with("/address/socket_address/address", json!("0.0.0.0"));
    let listener = if has_proxy_protocol { listener.proxy_protocol() } else { listener };
    let upstream = Upstream::start().await?;
    let bootstrap = bootstrap(&upstream).listener(listener);
    let envoy = Envoy::start(&lab.envoy, bootstrap.build(), Options::default()).await?;
    let port = envoy.port("gate").await?;
    Ok((envoy, (outer_address()?, port).into(), (Ipv4Addr::LOCALHOST, port).into()))
}

async fn ask_behind(to: SocketAddr, header: &str, request: &Request) -> Outcome<Response> {
    Connect::to(to).proxied(header)?.open().await?.request(request).await
}

async fn proxy_protocol_forges_no_loopback_address(lab: &Lab) -> Outcome {
    let (_envoy, outside, inside) = exposed(lab, true).await?;
    let request = marked("POST", "/drain", &[]);
    for forged in ["v1 127.0.0.1:16091 from 127.0.0.1", "v2 127.0.0.1:16091 from 127.0.0.1"] {
        let answer = ask_behind(outside, forged, &request).await?.expect(403)?;
        ensure!(answer.text().contains("loopback"), "{}", answer.text());
    }
    // A client on the loopback interface counts as local, whatever its PROXY header contains.
    ask_behind(inside, "v1 192.0.2.8:2 from 192.0.2.7", &request).await?.expect(202).map(drop)
}

async fn refuses_changes_from_the_network_without_a_secret(lab: &Lab) -> Outcome {
    let (_envoy, outside, inside) = exposed(lab, false).await?;
    for (method, path) in PROTECTED {
        is_refused(outside, &marked(method, path, &[]), "secret")
            .await
            .with_context(|| format!("{method} {path}"))?;
    }
    for path in ["/status", "/ready"] {
        let answer = once(outside, &marked("GET", path, &[])).await?;
        ensure!(answer.status != 403, "{path} is free: {}", answer.text());
    }
    once(inside, &marked("POST", "/drain", &[])).await?.expect(202)?;
    without_its_filter(lab).await
}

/// A gate that was rendered before it had the filter for the connection's address: its hooks keep
/// working.
async fn without_its_filter(lab: &Lab) -> Outcome {
    let hcm = Hcm::new("laststream")
        .filter(gate_filter(lab, "{}"))
        .route(Route::prefix("/").direct(503, "no gate"));
    let listener = Listener::new("gate", hcm);
    let bootstrap = Bootstrap::new().cluster(admin_cluster("prometheus_stats")).listener(listener);
    let envoy = Envoy::start(&lab.envoy, bootstrap.build(), Options::default()).await?;
    let gate = envoy.address("gate").await?;
    once(gate, &marked("POST", "/drain", &[])).await?.expect(202).map(drop)
}
