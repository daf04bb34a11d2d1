//! A gate's answer: the body that belongs to its status, or why it is not one.

use serde::de::DeserializeOwned;

use super::bodies::Outcome;
use super::error::GateError;
use super::http::Response;

/// A response, parsed and as raw text.
#[derive(Debug, Clone)]
pub struct GateAnswer<T> {
    pub status: u16,
    pub body: T,
    pub text: String,
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
    use crate::bodies::Status;

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
