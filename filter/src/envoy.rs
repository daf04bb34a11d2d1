//! The host calls, as [`Host`], [`Control`] and [`BodyHost`]. They use `proxy_wasm::hostcalls`,
//! because the methods of the SDK's traits unwrap results; clippy forbids those.
//!
//! The SDK panics on an unexpected status, and a panic ends the VM with the count of all its
//! streams. So Envoy (1.36 to 1.40) must not return such a status to any of these calls:
//!
//! - `log`: Ok; BadArgument for an unknown level. Levels are the SDK's enum.
//! - `define_metric`: Ok; BadArgument for an unknown type. Types are the SDK's enum.
//! - `increment_metric`, `get_metric`: Ok, NotFound, BadArgument. All are expected.
//! - `record_metric`: Ok, NotFound. Both are expected.
//! - `proxy_get_property`, `proxy_set_property`: not called through the SDK; [`crate::raw`] handles
//!   every status.
//! - `proxy_get_header_map_pairs`: not called through the SDK, which unwraps UTF-8 of names; other
//!   filters can add any bytes. See [`crate::raw`].
//! - `set_map_value_bytes`, `remove_map_value`: Ok; BadArgument without request headers. Called
//!   only in `on_http_request_headers`.
//! - `get_map_value_bytes` of a response: Ok, NotFound; BadArgument without a response. Called only
//!   if `num_headers > 0`: a call that failed has none.
//! - `get_buffer`: Ok, NotFound; BadArgument for a `start` beyond the end. `start` is 0.
//! - `get_buffer`, `set_buffer` of a body: Ok, NotFound; BadArgument for a `start` beyond the end,
//!   or for a part that is replaced. Called only in callbacks for that body; parts are only read.
//! - `dispatch_http_call`: Ok, BadArgument, InternalFailure. All are expected. Numbers of calls are
//!   unique in a VM, and calls are made in callbacks of the root context, which outlives them.
//! - `get_shared_data`: Ok, NotFound. `set_shared_data`: Ok, CasMismatch. All are expected.
//! - `register_shared_queue`: Ok.
//! - `enqueue_shared_queue`, `dequeue_shared_queue`: Ok, NotFound, Empty. All are expected.
//! - `set_tick_period`, `get_current_time`: Ok.
//! - `set_effective_context`: Ok; BadArgument for a context that no longer exists. Both are
//!   expected.
//! - `send_http_response`, `reset_http_request`: Ok.
//! - Any call: InvalidMemoryAccess for pointers outside of the memory. Pointers are Rust's.
//!
//! The dispatcher panics on the number of an unknown context. Envoy sends one in `proxy_on_log`,
//! which comes after the end of an HTTP/3 stream and is not exported, and in `proxy_on_queue_ready`
//! for the queue of a VM that has died. [`crate::raw`] lets only root contexts pass there.

use core::time::Duration;
use std::time::UNIX_EPOCH;

use laststream_drain::state::Moment;
use proxy_wasm::hostcalls;
use proxy_wasm::types::{BufferType, LogLevel, MapType, MetricType};

use crate::host::{Body, BodyHost, Control, Host, Level, Metric, MetricKind};
use crate::parse::digits;
use crate::raw;

/// Envoy, from inside the VM.
pub(crate) struct Envoy;

impl Envoy {
    /// The plugin's configuration, while it is being configured.
    pub(crate) fn configuration(&self, size: usize) -> Vec<u8> {
        hostcalls::get_buffer(BufferType::PluginConfiguration, 0, size)
            .ok()
            .flatten()
            .unwrap_or_default()
    }
}

impl Host for Envoy {
    fn log(&self, level: Level, line: &str) {
        match level {
            Level::Info => log::info!("{line}"),
            Level::Warning => log::warn!("{line}"),
            Level::Error => log::error!("{line}"),
            // The crate `log` has no level above error.
            Level::Critical => drop(hostcalls::log(LogLevel::Critical, line)),
        }
    }

    fn define_metric(&self, kind: MetricKind, name: &str) -> Option<Metric> {
        let kind = match kind {
            MetricKind::Counter => MetricType::Counter,
            MetricKind::Gauge => MetricType::Gauge,
        };
        hostcalls::define_metric(kind, name).ok().map(Metric)
    }

    fn increment_metric(&self, metric: Metric, amount: i64) {
        let _ = hostcalls::increment_metric(metric.0, amount);
    }

    fn make_visible(&self, counter: Metric) {
        let _ = hostcalls::record_metric(counter.0, 0);
    }

    fn get_metric(&self, metric: Metric) -> Option<u64> {
        hostcalls::get_metric(metric.0).ok()
    }

    fn property(&self, path: &str) -> Option<Vec<u8>> {
        raw::property(path)
    }

    fn request_headers(&self) -> Vec<u8> {
        raw::request_headers()
    }

    fn set_request_header(&self, name: &str, value: &[u8]) {
        let _ = hostcalls::set_map_value_bytes(MapType::HttpRequestHeaders, name, Some(value));
    }

    fn remove_request_header(&self, name: &[u8]) {
        if let Ok(name) = core::str::from_utf8(name) {
            let _ = hostcalls::remove_map_value(MapType::HttpRequestHeaders, name);
        }
    }
}

impl Control for Envoy {
    fn monotonic_time(&self) -> Moment {
        Moment(raw::monotonic_clock() / 1_000_000)
    }

    fn wall_clock(&self) -> u64 {
        let since =
            hostcalls::get_current_time().ok().and_then(|now| now.duration_since(UNIX_EPOCH).ok());
        since.map_or(0, |since| since.as_millis() as u64)
    }

    fn record_metric(&self, gauge: Metric, value: u64) {
        let _ = hostcalls::record_metric(gauge.0, value);
    }

    fn get_shared_data(&self, key: &str) -> Option<(Vec<u8>, u32)> {
        let (value, generation) = hostcalls::get_shared_data(key).ok()?;
        Some((value.unwrap_or_default(), generation?))
    }

    fn set_shared_data(&self, key: &str, value: &[u8], generation: Option<u32>) -> bool {
        // Generation 0 would replace any value. A generation that does not exist yet can only
        // create a missing key.
        hostcalls::set_shared_data(key, Some(value), Some(generation.unwrap_or(u32::MAX))).is_ok()
    }

    fn register_queue(&self, name: &str) -> Option<u32> {
        hostcalls::register_shared_queue(name).ok()
    }

    fn enqueue(&self, queue: u32, message: &[u8]) -> bool {
        hostcalls::enqueue_shared_queue(queue, Some(message)).is_ok()
    }

    fn dequeue(&self, queue: u32) -> Option<Vec<u8>> {
        hostcalls::dequeue_shared_queue(queue).ok().flatten()
    }

    fn set_tick_period(&self, period: u32) {
        let _ = hostcalls::set_tick_period(Duration::from_millis(period.into()));
    }

    fn dispatch_http_call(
        &self,
        cluster: &str,
        method: &str,
        path: &str,
        patience: u64,
    ) -> Option<u32> {
        let headers = vec![
            (":method", method),
            (":path", path),
            (":authority", cluster),
            ("content-length", "0"),
        ];
        // The ABI has 32 bits, and Envoy refuses the upper half as negative.
        let patience = Duration::from_millis(patience.min(i32::MAX as u64));
        hostcalls::dispatch_http_call(cluster, headers, None, Vec::new(), patience).ok()
    }

    fn call_response_status(&self) -> Option<u16> {
        digits(&self.call_response_header(":status")?)
    }

    fn call_response_header(&self, name: &str) -> Option<Vec<u8>> {
        hostcalls::get_map_value_bytes(MapType::HttpCallResponseHeaders, name).ok().flatten()
    }

    fn call_response_body(&self, length: usize) -> Vec<u8> {
        hostcalls::get_buffer(BufferType::HttpCallResponseBody, 0, length)
            .ok()
            .flatten()
            .unwrap_or_default()
    }

    fn send_http_response(&self, stream: u32, status: u16, headers: &[(&str, &str)], body: &str) {
        if self.set_effective_context(stream) {
            let _ = hostcalls::send_http_response(
                status.into(),
                headers.to_vec(),
                Some(body.as_bytes()),
            );
        }
    }

    fn reset_stream(&self, stream: u32) {
        if self.set_effective_context(stream) {
            let _ = hostcalls::reset_http_request();
        }
    }

    fn set_effective_context(&self, stream: u32) -> bool {
        hostcalls::set_effective_context(stream).is_ok()
    }

    fn set_property(&self, name: &str, value: &[u8]) -> bool {
        raw::set_property(name, value)
    }
}

impl BodyHost for Envoy {
    fn body(&self, body: Body, start: usize, length: usize) -> Vec<u8> {
        hostcalls::get_buffer(buffer(body), start, length).ok().flatten().unwrap_or_default()
    }

    fn replace_body(&self, body: Body, bytes: &[u8]) {
        let _ = hostcalls::set_buffer(buffer(body), 0, usize::MAX, bytes);
    }
}

fn buffer(body: Body) -> BufferType {
    match body {
        Body::Request => BufferType::HttpRequestBody,
        Body::Response => BufferType::HttpResponseBody,
    }
}
