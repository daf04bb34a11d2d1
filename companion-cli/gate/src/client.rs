//! A client of the gate, with a function for each request.

use std::time::Duration;

use http::Method;

use super::address::Address;
use super::answer::{GateAnswer, read};
use super::bodies::{Outcome, Status, Streams};
use super::command::DrainCommand;
use super::error::GateError;
use super::http::{Response, request};
use laststream_base::secret::Secret;

const SECRET_HEADER: &str = "x-laststream-secret";
/// The time limit for most requests.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// How long the gate waits for counters that are late: the answer must come before this program
/// gives up.
const WAIT: Duration = Duration::from_secs(4);

/// Asks for the status, and waits this long for counters that are late.
pub fn status_path(wait: Duration) -> String {
    format!("/status?wait={}ms", wait.as_millis())
}

/// The same for the oldest streams.
pub fn streams_path(limit: u32, wait: Duration) -> String {
    format!("/streams?limit={limit}&wait={}ms", wait.as_millis())
}

#[derive(Debug)]
pub struct GateClient {
    address: Address,
    secret: Option<Secret>,
}

#[derive(Debug, Clone)]
pub enum Signal {
    /// Envoy has received the signal, or ended before it could answer.
    Passed,
    Refused(Outcome),
}

impl GateClient {
    pub fn new(address: Address, secret: Option<Secret>) -> Self {
        Self { address, secret }
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    pub fn status(&self) -> Result<GateAnswer<Status>, GateError> {
        read(self.request(Method::GET, &status_path(WAIT), TIME_LIMIT)?, &[200])
    }

    /// The oldest streams that hold the drain.
    pub fn streams(&self, limit: u32) -> Result<GateAnswer<Streams>, GateError> {
        read(self.request(Method::GET, &streams_path(limit, WAIT), TIME_LIMIT)?, &[200])
    }

    /// Whether the gate is open: 200, else 503.
    pub fn ready(&self, limit: Duration) -> Result<GateAnswer<Outcome>, GateError> {
        // As with a status, the answer must come before this program gives up.
        let path = match limit.saturating_sub(Duration::from_secs(1)) {
            Duration::ZERO => "/ready".into(),
            wait => format!("/ready?wait={}ms", wait.as_millis()),
        };
        read(self.request(Method::GET, &path, limit)?, &[200, 503])
    }

    /// Begins the drain and waits up to `hold`: 200 if the gate is open, else 503.
    pub fn prestop(
        &self,
        hold: Duration,
        limit: Duration,
    ) -> Result<GateAnswer<Outcome>, GateError> {
        read(
            self.request(Method::GET, &format!("/prestop?wait={}ms", hold.as_millis()), limit)?,
            &[200, 503],
        )
    }

    /// Begins, cancels or forces the drain.
    pub fn command(&self, command: &DrainCommand) -> Result<GateAnswer<Outcome>, GateError> {
        command.read(self.request(command.method(), &command.path(), TIME_LIMIT)?)
    }

    /// Ends Envoy, if the gate lets the signal pass.
    pub fn quit(&self) -> Result<Signal, GateError> {
        self.quit_within(TIME_LIMIT)
    }

    /// The same as [`Self::quit`] with another time limit. The gate answers after Envoy has
    /// answered, which may take longer than other requests.
    pub fn quit_within(&self, limit: Duration) -> Result<Signal, GateError> {
        let response = match self.request(Method::POST, "/quitquitquit", limit) {
            Err(error) if error.may_have_arrived() => return Ok(Signal::Passed),
            response => response?,
        };
        if (200..300).contains(&response.status) {
            return Ok(Signal::Passed);
        }
        read(response, &[503]).map(|answer| Signal::Refused(answer.body))
    }

    fn request(&self, method: Method, path: &str, limit: Duration) -> Result<Response, GateError> {
        let secret = self.secret.as_ref().map(|secret| (SECRET_HEADER, secret.reveal().to_owned()));
        request(method, &self.address.with(path), secret.as_slice(), limit)
    }
}
