//! A request to the gate, in the callbacks of its own HTTP context: checked, refused or enqueued.

use super::access::{ConnectionProperties, access_refusal, browser_refusal, refusal_body};
use super::gate::Gate;
use super::http::{RequestError, parse_command};
use super::replies::{Outcome, json};
use crate::headers::Headers;
use crate::host::{Control, Level};

impl Gate {
    /// The request is refused here, while its headers and its connection can be read, or its
    /// command waits for the root context.
    #[inline(never)] // keeps this code out of the path of every stream
    pub(crate) fn on_request_headers(&mut self, host: &impl Control, stream: u32, map: &[u8]) {
        self.requests_in_flight += 1;
        let headers = Headers::new(map);
        if headers.is_grpc() {
            return self.reset_grpc(host, stream);
        }
        let text = |name| String::from_utf8_lossy(headers.first(name).unwrap_or_default());
        let connection = ConnectionProperties::read(host, &self.policy);
        let access = connection.access(&self.policy);
        if let Some(why) = browser_refusal(headers, &access) {
            return forbid(host, stream, why);
        }
        match parse_command(&text(":method"), &text(":path")) {
            Ok(command) => {
                let path = headers.first(":path").unwrap_or_default();
                match access_refusal(headers, path, &command, &access) {
                    Some(why) => forbid(host, stream, why),
                    None => self.enqueue_command(host, stream, command),
                }
            }
            Err(error) => self.reject_request(host, stream, error),
        }
    }

    fn reject_request(&self, host: &impl Control, stream: u32, error: RequestError) {
        match error {
            RequestError::Path => {
                self.respond_plainly(host, stream, 404, "there is no such path; see /status")
            }
            RequestError::Query(why) => self.respond_plainly(host, stream, 400, why),
            RequestError::Method(allow) => {
                let reason = "this path takes other methods".into();
                let state = self.record.read(host).phase;
                let body = json(&Outcome { state, reason, holding: None });
                let headers = [("content-type", "application/json"), ("allow", allow)];
                host.send_http_response(stream, 405, &headers, &body);
            }
        }
    }

    /// Envoy turns every answer of a filter to a gRPC request into HTTP 200, and a client that
    /// polls for 200 would take a refusal for success.
    fn reset_grpc(&mut self, host: &impl Control, stream: u32) {
        if !core::mem::replace(&mut self.has_reset_grpc, true) {
            host.log(
                Level::Warning,
                "a gRPC request was cut: Envoy would answer 200, whatever the gate says",
            );
        }
        host.reset_stream(stream);
    }

    /// The request was answered, or its client has gone.
    #[inline(never)] // as above
    pub(crate) fn on_stream_end(&mut self, host: &impl Control, stream: u32) {
        self.requests_in_flight = self.requests_in_flight.saturating_sub(1);
        self.forget_command(stream);
        self.waiting.forget(stream);
        self.forget_latched_signal(host, stream);
    }
}

fn forbid(host: &impl Control, stream: u32, why: &str) {
    host.send_http_response(
        stream,
        403,
        &[("content-type", "application/json")],
        &refusal_body(why),
    );
}
