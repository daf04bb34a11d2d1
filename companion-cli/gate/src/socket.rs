//! Unix sockets for the HTTP client.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

/// Connects to this path, whatever the request's host is.
#[derive(Debug)]
pub(crate) struct Socket(pub(crate) PathBuf);

#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl Connector for Socket {
    type Out = Connection;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _chained: Option<()>,
    ) -> Result<Option<Connection>, Error> {
        let sizes = details.config;
        let buffers = LazyBuffers::new(sizes.input_buffer_size(), sizes.output_buffer_size());
        let stream = UnixStream::connect(&self.0).map_err(|error| match error.kind() {
            ErrorKind::NotFound => ErrorKind::ConnectionRefused.into(),
            _ => error,
        })?;
        Ok(Some(Connection { stream, buffers }))
    }
}

impl Transport for Connection {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.set_write_timeout(Some(time_left(timeout, Instant::now())?))?;
        let output = &self.buffers.output()[..amount];
        self.stream.write_all(output).map_err(|error| of_io(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let (began, input) = (Instant::now(), self.buffers.input_append_buf());
        let amount = loop {
            self.stream.set_read_timeout(Some(time_left(timeout, began)?))?;
            match self.stream.read(input) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {} // by a signal
                read => break read.map_err(|error| of_io(error, timeout))?,
            }
        };
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    /// Each connection is for one request.
    fn is_open(&mut self) -> bool {
        false
    }
}

/// What is left of the time that there was when this began.
fn time_left(timeout: NextTimeout, began: Instant) -> Result<Duration, Error> {
    let left = timeout.after.saturating_sub(began.elapsed());
    if left.is_zero() { Err(Error::Timeout(timeout.reason)) } else { Ok(left) }
}

fn of_io(error: io::Error, timeout: NextTimeout) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock => Error::Timeout(timeout.reason),
        _ => Error::Io(error),
    }
}
