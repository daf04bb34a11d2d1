//! The way to the API server: proxies of the kubeconfig and of the environment, as in kubectl.

use std::io::Read as _;
use std::net::TcpListener;
use std::thread;

use kit::Outcome;
use kit::command::run;
use kit::fake_server::Answer;
use kit::tunnel::Tunnel;
use serde_json::json;

use crate::fleet::support::{Cluster, LIST, PAGE, STATUS, pod};

/// Only the proxy can resolve this host.
const API: &str = "http://api.test:6443";
const PASSWORD: &str = "hunter2";

fn cluster() -> Outcome<Cluster> {
    Cluster::with_pods(&[pod("a")], |_| Answer::new(200).body(PAGE))
}

/// The same API server behind a tunnel.
fn behind_a_tunnel() -> Outcome<(Cluster, Tunnel)> {
    let cluster = cluster()?;
    let tunnel = Tunnel::start(Some(cluster.server.address))?;
    cluster.edit(|config| config["clusters"][0]["cluster"]["server"] = json!(API))?;
    Ok((cluster, tunnel))
}

fn name_proxy(cluster: &Cluster, url: &str) -> Outcome {
    cluster.edit(|config| config["clusters"][0]["cluster"]["proxy-url"] = json!(url))
}

#[test]
fn no_proxy_is_about_the_api_server_and_not_about_the_proxy() -> Outcome {
    let (cluster, tunnel) = behind_a_tunnel()?;
    let url = format!("http://{}", tunnel.address);
    for is_named in [false, true] {
        let mut command = cluster.command(&STATUS);
        if is_named {
            name_proxy(&cluster, &url)?;
        } else {
            command.env("HTTP_PROXY", &url).env("HTTPS_PROXY", &url);
        }
        let before = tunnel.heads().len();
        run(command.env("NO_PROXY", "localhost,127.0.0.1,127.0.0.0/8"))?.expect(0)?;
        let heads = tunnel.heads();
        assert!(heads.len() > before, "named: {is_named}");
        assert!(heads.iter().all(|head| head.starts_with("CONNECT api.test:6443 ")), "{heads:?}");
    }
    // A proxy that the kubeconfig names is used even against NO_PROXY.
    run(cluster.command(&STATUS).env("NO_PROXY", "api.test"))?.expect(0)?;
    Ok(())
}

#[test]
fn an_api_server_on_this_machine_needs_no_proxy() -> Outcome {
    let (cluster, tunnel) = (cluster()?, Tunnel::start(None)?);
    let url = format!("http://{}", tunnel.address);
    let mut command = cluster.command(&STATUS);
    run(command.env("HTTP_PROXY", &url).env("HTTPS_PROXY", &url))?.expect(0)?;
    assert_eq!((cluster.asked(LIST), tunnel.heads().len()), (1, 0));
    Ok(())
}

#[test]
fn a_proxy_variable_needs_no_scheme() -> Outcome {
    let (cluster, tunnel) = behind_a_tunnel()?;
    let login = format!("user:{PASSWORD}@{}", tunnel.address);
    let mut command = cluster.command(&STATUS);
    run(command.env("HTTP_PROXY", &login).env("HTTPS_PROXY", &login))?.expect(0)?;
    assert!(tunnel.heads()[0].to_lowercase().contains("proxy-authorization: basic "));
    Ok(())
}

#[test]
fn a_socks_proxy_is_asked() -> Outcome {
    let (cluster, listener) = (cluster()?, TcpListener::bind("127.0.0.1:0")?);
    name_proxy(&cluster, &format!("socks5://{}", listener.local_addr()?))?;
    let greeting = thread::spawn(move || -> Outcome<u8> {
        let (mut client, mut version) = (listener.accept()?.0, [0]);
        client.read_exact(&mut version)?;
        Ok(version[0])
    });
    let said = cluster.run(&["status", "-n", "shop", "--request-timeout", "5s"])?.expect(2)?;
    said.stderr_contains("cannot be reached")?;
    assert_eq!(greeting.join().unwrap()?, 5);
    Ok(())
}

#[test]
fn an_error_in_no_proxy_is_not_blamed_on_the_kubeconfig() -> Outcome {
    let cluster = cluster()?;
    let mut command = cluster.command(&STATUS);
    command.env("HTTPS_PROXY", "http://127.0.0.1:1").env("NO_PROXY", "localhost,");
    let said = run(&mut command)?.expect(2)?.stderr_contains("the variable NO_PROXY")?;
    said.hides("the kubeconfig cannot be used")?;
    Ok(())
}

#[test]
fn an_unknown_proxy_scheme_is_reported_without_the_password() -> Outcome {
    let (cluster, _tunnel) = behind_a_tunnel()?;
    let login = format!("user:{PASSWORD}@proxy.test:1080");
    for (url, told) in [
        (format!("socks5h://{login}"), "`socks5h://proxy.test:1080` does not begin with `http://`"),
        (login.clone(), "`proxy.test:1080` does not begin with `http://`"),
    ] {
        name_proxy(&cluster, &url)?;
        cluster.run(&STATUS)?.expect(2)?.stderr_contains(told)?.hides(PASSWORD)?;
    }
    name_proxy(&cluster, "")?;
    let mut command = cluster.command(&STATUS);
    command.env("HTTP_PROXY", format!("socks5h://{login}"));
    run(&mut command)?.expect(2)?.stderr_contains("`socks5h://proxy.test")?.hides(PASSWORD)?;
    Ok(())
}

#[test]
fn the_password_in_the_server_s_address_is_not_shown() -> Outcome {
    let cluster = cluster()?;
    let server = format!("http://user:{PASSWORD}@127.0.0.1:1/a@b/");
    cluster.edit(|config| config["clusters"][0]["cluster"]["server"] = json!(server))?;
    let said = cluster.run(&STATUS)?.expect(2)?;
    said.stderr_contains("the API server at http://127.0.0.1:1/a@b cannot")?.hides(PASSWORD)?;
    Ok(())
}
