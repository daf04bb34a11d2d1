//! HTTPS_PROXY and NO_PROXY, with a proxy that opens tunnels.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::{PASSWORD, USERNAME, push, utf8};
use crate::lab::envoyless_cases;
use kit::certificates::Authority;
use kit::fake_server::{Answer, Fault};
use kit::prelude::*;
use kit::registry::faulty::Faulty;
use kit::user::User;

envoyless_cases! {
    a_registry_is_reached_through_a_proxy,
    a_proxy_that_refuses_is_told_without_its_password,
    this_machine_needs_no_proxy,
}

/// Only the proxy knows where it is.
const REGISTRY: &str = "registry.test";

/// Leads every tunnel to one address, or refuses them all.
struct Proxy {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn start(to: Option<SocketAddr>) -> Outcome<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, heads) = (listener.local_addr()?, Arc::<Mutex<Vec<String>>>::default());
        let heard = Arc::clone(&heads);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let heard = Arc::clone(&heard);
                thread::spawn(move || tunnel(client, to, &heard));
            }
        });
        Ok(Self { address, heads })
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn url(&self) -> String {
        format!("http://{USERNAME}:{PASSWORD}@{}", self.address)
    }
}

fn tunnel(
    mut client: TcpStream,
    to: Option<SocketAddr>,
    heads: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    client.set_read_timeout(Some(Duration::from_secs(30)))?;
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && client.read(&mut byte)? == 1 {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let is_connect = head.starts_with("CONNECT ");
    heads.lock().unwrap_or_else(PoisonError::into_inner).push(head);
    let Some(to) = to.filter(|_| is_connect) else {
        return client
            .write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n");
    };
    let server = TcpStream::connect(to)?;
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server); // one of them has had enough
        let _ = to_server.shutdown(Shutdown::Both);
    });
    let _ = std::io::copy(&mut &server, &mut client);
    client.shutdown(Shutdown::Both)
}

fn a_registry_is_reached_through_a_proxy() -> Outcome {
    let (authority, mut user) = (Authority::new()?, User::new()?);
    let tls = Authority::server_config(&authority.server_named(&[REGISTRY])?)?;
    let registry = Faulty::start_with(Some(tls), |asked, _, _| {
        let has_seen = asked.header("proxy-authorization").is_some();
        has_seen.then(|| Fault::Answer(Answer::new(400).body("the proxy's password")))
    })?;
    let proxy = Proxy::start(Some(registry.name().parse()?))?;
    let ca = user.file("ca.pem", authority.pem())?;
    let image = format!("{REGISTRY}/team/laststream:1");
    let arguments = ["--ca-file", utf8(&ca), "--retries", "0", &image];
    user.set("HTTPS_PROXY", proxy.url());
    push(&user, &arguments)?.expect(0)?.hides(PASSWORD)?;
    let heads = proxy.heads();
    ensure!(
        !heads.is_empty()
            && heads
                .iter()
                .all(|head| head.starts_with(&format!("CONNECT {REGISTRY}:443 HTTP/1.1"))),
        "{heads:#?}"
    );
    ensure!(
        heads.iter().all(|head| head.to_lowercase().contains("proxy-authorization: basic ")),
        "{heads:#?}"
    );
    for exception in [REGISTRY, ".test", "*"] {
        user.set("NO_PROXY", exception);
        push(&user, &arguments)?.expect(2)?.stderr_contains("there is no host of that name")?;
    }
    ensure_eq!(proxy.heads().len(), heads.len(), "tunnels that NO_PROXY forbids");
    user.set("NO_PROXY", "other.test");
    push(&user, &arguments)?.expect(0).map(drop)
}

fn a_proxy_that_refuses_is_told_without_its_password() -> Outcome {
    let mut user = User::new()?;
    let proxy = Proxy::start(None)?;
    user.set("HTTPS_PROXY", proxy.url());
    let arguments = ["--retries", "0", &format!("{REGISTRY}/x:1")];
    push(&user, &arguments)?.expect(2)?.stderr_contains("proxy")?.hides(PASSWORD)?;
    ensure_eq!(proxy.heads().len(), 1, "tries");
    user.set("HTTPS_PROXY", format!("http://{USERNAME}:{PASSWORD}@127.0.0.1:1"));
    push(&user, &arguments)?.expect(2)?.hides(PASSWORD).map(drop)
}

fn this_machine_needs_no_proxy() -> Outcome {
    let (mut user, registry, proxy) =
        (User::new()?, Faulty::start(|_, _, _| None)?, Proxy::start(None)?);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
        user.set(name, proxy.url());
    }
    push(&user, &[&format!("{}/x:1", registry.name())])?.expect(0)?;
    ensure!(proxy.heads().is_empty(), "{:#?}", proxy.heads());
    Ok(())
}
