//! HTTPS_PROXY and NO_PROXY, with a proxy that opens tunnels.

use super::{push, utf8};
use crate::lab::envoyless_cases;
use kit::certificates::Authority;
use kit::fake_server::{Answer, Fault};
use kit::prelude::*;
use kit::registry::faulty::Faulty;
use kit::registry::real::{PASSWORD, USERNAME};
use kit::tunnel::Tunnel;
use kit::user::User;

envoyless_cases! {
    a_registry_is_reached_through_a_proxy,
    the_error_for_a_refusing_proxy_hides_its_password,
    local_registries_need_no_proxy,
}

/// A name that only the proxy can resolve.
const REGISTRY: &str = "registry.test";

fn url(proxy: &Tunnel) -> String {
    format!("http://{USERNAME}:{PASSWORD}@{}", proxy.address)
}

fn a_registry_is_reached_through_a_proxy() -> Outcome {
    let (authority, mut user) = (Authority::new()?, User::new()?);
    let tls = Authority::server_config(&authority.server_named(&[REGISTRY])?)?;
    let registry = Faulty::start_with(Some(tls), |asked, _, _| {
        let has_seen = asked.header("proxy-authorization").is_some();
        has_seen.then(|| Fault::Answer(Answer::new(400).body("the proxy's password")))
    })?;
    let proxy = Tunnel::start(Some(registry.name().parse()?))?;
    let ca = user.file("ca.pem", authority.pem())?;
    let image = format!("{REGISTRY}/team/laststream:1");
    let arguments = ["--ca-file", utf8(&ca), "--retries", "0", &image];
    user.set("HTTPS_PROXY", url(&proxy));
    push(&user, &arguments)?.expect(0)?.hides(PASSWORD)?;
    let heads = proxy.heads();
    let connect = format!("CONNECT {REGISTRY}:443 HTTP/1.1");
    let is_right = |head: &String| {
        head.starts_with(&connect) && head.to_lowercase().contains("proxy-authorization: basic ")
    };
    ensure!(!heads.is_empty() && heads.iter().all(is_right), "{heads:#?}");
    for exception in [REGISTRY, ".test", "*"] {
        user.set("NO_PROXY", exception);
        push(&user, &arguments)?.expect(2)?.stderr_contains("there is no host of that name")?;
    }
    ensure_eq!(proxy.heads().len(), heads.len(), "tunnels that NO_PROXY forbids");
    user.set("NO_PROXY", "other.test");
    push(&user, &arguments)?.expect(0).map(drop)
}

fn the_error_for_a_refusing_proxy_hides_its_password() -> Outcome {
    let mut user = User::new()?;
    let proxy = Tunnel::start(None)?;
    user.set("HTTPS_PROXY", url(&proxy));
    let arguments = ["--retries", "0", &format!("{REGISTRY}/x:1")];
    push(&user, &arguments)?.expect(2)?.stderr_contains("proxy")?.hides(PASSWORD)?;
    ensure_eq!(proxy.heads().len(), 1, "tries");
    user.set("HTTPS_PROXY", format!("http://{USERNAME}:{PASSWORD}@127.0.0.1:1"));
    push(&user, &arguments)?.expect(2)?.hides(PASSWORD).map(drop)
}

fn local_registries_need_no_proxy() -> Outcome {
    let (mut user, registry, proxy) =
        (User::new()?, Faulty::start(|_, _, _| None)?, Tunnel::start(None)?);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
        user.set(name, url(&proxy));
    }
    push(&user, &[&format!("{}/x:1", registry.name())])?.expect(0)?;
    ensure!(proxy.heads().is_empty(), "{:#?}", proxy.heads());
    Ok(())
}
