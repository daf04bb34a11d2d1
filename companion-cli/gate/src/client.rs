//! A client of the gate, with a function for each request.

use std::time::Duration;

use http::Method;
use serde::de::DeserializeOwned;

use super::address::Address;
use super::bodies::{Outcome, Status, Streams};
use super::command::DrainCommand;
use super::error::GateError;
use super::http::{Http, Response};
use laststream_http::Secret;

const SECRET_HEADER: &str = "x-laststream-secret";
/// The time limit for most requests.
const PATIENCE: Duration = Duration::from_secs(5);
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
pub struct Gate {
    address: Address,
    secret: Option<Secret>,
    http: Http,
}

/// A response, parsed and as raw text.
#[derive(Debug, Clone)]
pub struct GateAnswer<T> {
    pub status: u16,
    pub body: T,
    pub text: String,
}

#[derive(Debug, Clone)]
pub enum Signal {
    /// Envoy has received the signal, or ended before it could answer.
    Passed,
    Refused(Outcome),
}

impl Gate {
    pub fn new(address: Address, secret: Option<Secret>) -> Self {
        Self { address, secret, http: Http::default() }
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    pub fn status(&self) -> Result<GateAnswer<Status>, GateError> {
        read(self.request(Method::GET, &status_path(WAIT), PATIENCE)?, &[200])
    }

    /// The oldest streams that hold the drain.
    pub fn streams(&self, limit: u32) -> Result<GateAnswer<Streams>, GateError> {
        read(self.request(Method::GET, &streams_path(limit, WAIT), PATIENCE)?, &[200])
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
        command.read(self.request(command.method(), &command.path(), PATIENCE)?)
    }

    /// Ends Envoy, if the gate lets the signal pass.
    pub fn quit(&self) -> Result<Signal, GateError> {
        self.quit_within(PATIENCE)
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
        self.http.request(method, &self.address.with(path), secret.as_slice(), limit)
    }
}

/// Reads a response with one of these statuses and the gate's own body.
pub(crate) fn read<T: DeserializeOwned>(
    response: Response,
    expected: &[u16],
) -> Result<GateAnswer<T>, GateError> {
    let Response { status, body: text } = response;
    if expected.contains(&status) {
        return match serde_json::from_str(&text) {
            Ok(body) => Ok(GateAnswer { status, body, text }),
            Err(_) if status == 503 => Err(GateError::VmMissing),
            Err(_) => Err(GateError::NotAGate(status)),
        };
    }
    match (status, serde_json::from_str::<Outcome>(&text)) {
        (403, Ok(outcome)) => Err(GateError::Forbidden(outcome.reason)),
        (_, Ok(outcome)) => Err(GateError::Rejected(outcome.reason)),
        (503, Err(_)) => Err(GateError::VmMissing),
        (status, Err(_)) => Err(GateError::NotAGate(status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_status(status: u16, body: &str) -> Result<GateAnswer<Status>, GateError> {
        read(Response { status, body: body.to_owned() }, &[200])
    }

    #[test]
    fn unknown_fields_and_states_are_accepted_and_other_servers_rejected() {
        let body = r#"{"state": "evicting", "reason": "", "count": "exact", "holding": 1,
            "scopes": [], "new": {"x": 1}}"#;
        assert_eq!(
            read_status(200, body).map(|answer| answer.body.state).as_deref(),
            Ok("evicting")
        );
        let told = r#"{"state": "serving", "reason": "why"}"#;
        let error = |status, body| read_status(status, body).map(|answer| answer.text);
        assert_eq!(error(403, told), Err(GateError::Forbidden("why".into())));
        assert_eq!(error(404, told), Err(GateError::Rejected("why".into())));
        assert_eq!(error(503, "no gate\n"), Err(GateError::VmMissing));
        assert_eq!(error(200, "<html>"), Err(GateError::NotAGate(200)));
        assert_eq!(error(404, "nginx"), Err(GateError::NotAGate(404)));
        assert_eq!(error(200, "{}"), Err(GateError::NotAGate(200)));
        assert_eq!(error(403, r#"{"reason": "why"}"#), Err(GateError::Forbidden("why".into())));
    }
}
