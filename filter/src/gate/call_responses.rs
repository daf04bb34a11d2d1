//! The answers to the gate's calls.

use super::app;
use super::calls::{Call, CallKind};
use super::gate::Gate;
use super::stats::Stats;
use super::step::CallOutcome;
use crate::host::Control;

impl Gate {
    /// A call has ended. Without headers it failed, and the SDK panics if they are read.
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
        let outcome = if status == Some(200) { CallOutcome::Success } else { CallOutcome::Failure };
        let body = || String::from_utf8_lossy(&host.call_response_body(body_size)).into_owned();
        match call {
            Call::Begin => self.record_call_result(host, CallKind::Begin, outcome),
            Call::Finish => self.on_finish_response(host, status),
            Call::Cancel(stream) => self.on_cancel_response(host, stream, outcome),
            Call::Signal { stream, is_latched, ends_envoy } => {
                self.on_signal_response(host, stream, is_latched, ends_envoy, status, &body())
            }
            Call::Stats => {
                let managers = self.policy.connection_managers();
                let is_read = outcome == CallOutcome::Success;
                let stats = is_read.then(|| Stats::parse(&body(), managers));
                self.on_envoy_stats(host, stats);
            }
            Call::App => {
                let is_from_app =
                    is_answered && host.call_response_header(app::FROM_THE_APP).is_some();
                let state = app::from_response(status, is_from_app, &body());
                self.app_reply = Some((self.app_asked_at, state));
            }
        }
        self.evaluate_and_answer(host);
    }
}
