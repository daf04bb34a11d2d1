//! The callbacks of Envoy for the gate of one worker: ticks, messages, requests and answers.

use super::access::{ConnectionProperties, access_refusal, browser_refusal, refusal_body};
use super::app;
use super::calls::Call;
use super::gate::{Gate, respond_json};
use super::http::{RequestError, parse_command};
use super::replies::{Outcome, json};
use super::signals::LatchedSignal;
use super::stats::Stats;
use super::step::CallOutcome;
use crate::headers::Headers;
use crate::host::{Control, Level};

impl Gate {
    pub(crate) fn on_tick(&mut self, host: &impl Control) {
        self.run_next_command(host);
        if self.is_idle && self.claim_routine(host) {
            return self.evaluate_in_routine(host);
        }
        if self.period > 0 && !self.is_idle {
            self.ask_counters(host);
            self.drive_ends(host);
        }
        self.evaluate_and_answer(host);
    }

    /// Handles a message: the gate's own for a command, or a counter's reply. Envoy calls this once
    /// for each message, so a call that runs a command leaves the evaluation to the other calls.
    pub(crate) fn on_queue_ready(&mut self, host: &impl Control, queue: u32) {
        if !self.sources.census.owns_queue(queue) {
            return;
        }
        let has_run = self.run_next_command(host);
        let has_reply = self.sources.census.receive_replies(host);
        if self.period > 0 && (has_reply || !has_run) {
            self.evaluate_and_answer(host);
        }
    }

    /// Refuses the request here, while its headers and its connection can be read, or enqueues its
    /// command for the root context.
    #[inline(never)] // keeps this code out of the path of every stream
    pub(crate) fn on_request_headers(&mut self, host: &impl Control, stream: u32, map: &[u8]) {
        let headers = Headers::new(map);
        if headers.is_grpc() {
            return self.reset_grpc(host, stream);
        }
        let text = |name| String::from_utf8_lossy(headers.first(name).unwrap_or_default());
        let connection = ConnectionProperties::read(host, &self.policy);
        let access = connection.access(&self.policy);
        if let Some(why) = browser_refusal(headers, &access) {
            return respond_json(host, stream, 403, &refusal_body(why));
        }
        match parse_command(&text(":method"), &text(":path")) {
            Ok(command) => {
                let path = headers.first(":path").unwrap_or_default();
                match access_refusal(headers, path, &command, &access) {
                    Some(why) => respond_json(host, stream, 403, &refusal_body(why)),
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

    /// Resets a gRPC request. Envoy turns every answer of a filter to it into HTTP 200, and a
    /// client that polls for 200 would take a refusal for success.
    fn reset_grpc(&mut self, host: &impl Control, stream: u32) {
        if !core::mem::replace(&mut self.has_reset_grpc, true) {
            host.log(
                Level::Warning,
                "a gRPC request was cut: Envoy would answer 200, whatever the gate says",
            );
        }
        host.reset_stream(stream);
    }

    /// Forgets a request that was answered, or whose client has gone.
    #[inline(never)] // as above
    pub(crate) fn on_stream_end(&mut self, host: &impl Control, stream: u32) {
        self.commands.retain(|(other, _)| *other != stream);
        self.waiting.forget(stream);
        let is_of_stream = |signal: &mut LatchedSignal| signal.is_of_stream(stream);
        if self.latched_signal.take_if(is_of_stream).is_some() {
            self.open_latch(host);
        }
    }

    /// Handles the end of a call. A call without response headers failed, and the SDK panics if
    /// they are read.
    pub(crate) fn on_http_call_response(
        &mut self,
        host: &impl Control,
        number: u32,
        num_headers: usize,
        body_size: usize,
    ) {
        let Some(call) = self.calls.take(number) else { return };
        let is_answered = num_headers > 0;
        let status = if is_answered { host.call_response_status() } else { None };
        let outcome = CallOutcome::from_status(status);
        let body = || String::from_utf8_lossy(&host.call_response_body(body_size)).into_owned();
        match call {
            Call::Begin => self.on_begin_response(host, outcome),
            Call::UndoAgain => self.record_undo(host, outcome),
            Call::Finish => self.on_finish_response(host, status),
            Call::Notify { began } => self.on_notify_response(host, began, status),
            Call::Cancel { stream, was_draining, may_begin_late } => {
                self.on_cancel_response(host, stream, (was_draining, may_begin_late), outcome)
            }
            Call::Signal { stream, is_latched, ends_envoy } => {
                self.on_signal_response(host, stream, is_latched, ends_envoy, status, &body())
            }
            Call::Stats => {
                let managers = self.policy.connection_managers();
                let is_read = outcome == CallOutcome::Success;
                self.on_envoy_stats(host, is_read.then(|| Stats::parse(&body(), managers)));
            }
            Call::App => {
                let is_from_app =
                    is_answered && host.call_response_header(app::FROM_THE_APP).is_some();
                let state = app::from_response(status, is_from_app, &body());
                self.sources.app_reply = Some((self.sources.app_asked_at, state));
            }
        }
        self.evaluate_and_answer(host);
    }
}
