//! An HTTP proxy that opens tunnels.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::{Outcome, locked};

/// A proxy that opens every tunnel to one address, or refuses them all.
pub struct Tunnel {
    pub address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Tunnel {
    pub fn start(to: Option<SocketAddr>) -> Outcome<Self> {
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

    /// The heads of the requests to the proxy.
    pub fn heads(&self) -> Vec<String> {
        locked(&self.heads).clone()
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
    locked(heads).push(head);
    let Some(to) = to.filter(|_| is_connect) else {
        return client
            .write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n");
    };
    let server = TcpStream::connect(to)?;
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server); // fails if an end has closed
        let _ = to_server.shutdown(Shutdown::Both);
    });
    let _ = std::io::copy(&mut &server, &mut client);
    client.shutdown(Shutdown::Both)
}
