//! An HTTP/1.1 client that keeps its connection and tries nothing twice.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub(crate) struct Client {
    at: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
}

impl Client {
    pub(crate) fn new(at: SocketAddr) -> Self {
        Self { at, connection: None }
    }

    /// Status and body. The further headers end with a line feed each.
    pub(crate) fn get(&mut self, path: &str, headers: &str) -> io::Result<(u16, String)> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let connection = TcpStream::connect(self.at)?;
                connection.set_read_timeout(Some(Duration::from_secs(60)))?;
                BufReader::new(connection)
            }
        };
        connection.get_mut().write_all(
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n").as_bytes(),
        )?;
        let (mut status, mut length, mut closes) = (0, 0, false);
        loop {
            let mut line = String::new();
            if connection.read_line(&mut line)? == 0 {
                return Err(io::Error::other("the response broke off"));
            }
            let line = line.trim_end().to_ascii_lowercase();
            match line.split_once(": ") {
                None if line.is_empty() => break,
                None => {
                    status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
                }
                Some(("content-length", value)) => {
                    length = value.parse().map_err(io::Error::other)?
                }
                Some(("connection", value)) => closes = value == "close",
                Some(_) => {}
            }
        }
        let mut body = vec![0; length];
        connection.read_exact(&mut body)?;
        if !closes {
            self.connection = Some(connection);
        }
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }
}
