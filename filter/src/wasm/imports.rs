//! Calls to the host, as a [`Host`].

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr;

use crate::headers::serialise;
use crate::host::{Control, Host, Kind, Level, Metric};
use crate::parse::digits;

/// The statuses of the ABI are more than the module tells apart.
const OK: u32 = 0;

/// Number of the map that holds the request headers.
const REQUEST_HEADERS: u32 = 0;

#[link(wasm_import_module = "env")]
unsafe extern "C" {
    fn proxy_log(level: u32, text: *const u8, length: usize) -> u32;
    fn proxy_define_metric(kind: u32, name: *const u8, length: usize, metric: *mut u32) -> u32;
    safe fn proxy_increment_metric(metric: u32, offset: i64) -> u32;
    safe fn proxy_record_metric(metric: u32, value: u64) -> u32;
    fn proxy_get_metric(metric: u32, value: *mut u64) -> u32;
    fn proxy_get_property(path: *const u8, length: usize, value: *mut *mut u8, value_length: *mut usize) -> u32;
    fn proxy_get_buffer_bytes(buffer: u32, start: usize, most: usize, bytes: *mut *mut u8, length: *mut usize) -> u32;
    fn proxy_get_header_map_pairs(map: u32, pairs: *mut *mut u8, length: *mut usize) -> u32;
    fn proxy_replace_header_map_value(map: u32, name: *const u8, name_length: usize, value: *const u8, value_length: usize) -> u32;
    fn proxy_remove_header_map_value(map: u32, name: *const u8, name_length: usize) -> u32;
    fn proxy_get_current_time_nanoseconds(time: *mut u64) -> u32;
    safe fn proxy_set_tick_period_milliseconds(period: u32) -> u32;
    safe fn proxy_set_effective_context(context: u32) -> u32;
    safe fn proxy_close_stream(stream: u32) -> u32;
    fn proxy_get_shared_data(key: *const u8, key_length: usize, value: *mut *mut u8, length: *mut usize, generation: *mut u32) -> u32;
    fn proxy_set_shared_data(key: *const u8, key_length: usize, value: *const u8, length: usize, generation: u32) -> u32;
    fn proxy_register_shared_queue(name: *const u8, length: usize, queue: *mut u32) -> u32;
    fn proxy_enqueue_shared_queue(queue: u32, message: *const u8, length: usize) -> u32;
    fn proxy_dequeue_shared_queue(queue: u32, message: *mut *mut u8, length: *mut usize) -> u32;
    fn proxy_get_header_map_value(map: u32, name: *const u8, name_length: usize, value: *mut *mut u8, length: *mut usize) -> u32;
    fn proxy_http_call(
        cluster: *const u8,
        cluster_length: usize,
        headers: *const u8,
        headers_length: usize,
        body: *const u8,
        body_length: usize,
        trailers: *const u8,
        trailers_length: usize,
        patience: u32,
        call: *mut u32,
    ) -> u32;
    fn proxy_send_local_response(
        status: u32,
        details: *const u8,
        details_length: usize,
        body: *const u8,
        body_length: usize,
        headers: *const u8,
        headers_length: usize,
        grpc_status: i32,
    ) -> u32;
}

// The ABI itself only has the wall clock, which steps.
#[link(wasm_import_module = "wasi_snapshot_preview1")]
unsafe extern "C" {
    fn clock_time_get(clock: u32, precision: u64, nanoseconds: *mut u64) -> u32;
}

/// Number of the clock that never steps.
const MONOTONIC: u32 = 1;

/// The client's side of a stream, whole.
const REQUEST: u32 = 0;

/// Numbers of the map and the buffer that hold the answer to a call.
const CALL_HEADERS: u32 = 6;
const CALL_BODY: u32 = 4;

/// Number of the buffer that holds a plugin's configuration.
const PLUGIN_CONFIGURATION: u32 = 7;

/// Envoy, from inside the VM.
pub(super) struct Envoy;

impl Envoy {
    /// The plugin's configuration, while it is being configured.
    pub(super) fn configuration(&self, length: usize) -> Vec<u8> {
        // SAFETY: the host fills memory of `taken`'s making.
        taken(|bytes, size| unsafe { proxy_get_buffer_bytes(PLUGIN_CONFIGURATION, 0, length, bytes, size) }).unwrap_or_default()
    }
}

impl Host for Envoy {
    fn log(&self, level: Level, line: &str) {
        // SAFETY: the text outlives the call.
        unsafe { proxy_log(level as u32, line.as_ptr(), line.len()) };
    }

    fn metric(&self, kind: Kind, name: &str) -> Option<Metric> {
        let mut metric = 0;
        // SAFETY: the name and the place for the number outlive the call.
        let status = unsafe { proxy_define_metric(kind as u32, name.as_ptr(), name.len(), &mut metric) };
        (status == OK).then_some(Metric(metric))
    }

    fn add(&self, metric: Metric, amount: i64) {
        proxy_increment_metric(metric.0, amount);
    }

    fn show(&self, counter: Metric) {
        proxy_record_metric(counter.0, 0);
    }

    fn value(&self, metric: Metric) -> Option<u64> {
        let mut value = 0;
        // SAFETY: the place for the value outlives the call.
        let status = unsafe { proxy_get_metric(metric.0, &mut value) };
        (status == OK).then_some(value)
    }

    fn property(&self, path: &[u8]) -> Option<Vec<u8>> {
        // SAFETY: the path outlives the call, and the host fills memory of `taken`'s making.
        taken(|value, length| unsafe { proxy_get_property(path.as_ptr(), path.len(), value, length) })
    }

    fn request_headers(&self) -> Vec<u8> {
        // SAFETY: the host fills memory of `taken`'s making.
        taken(|pairs, length| unsafe { proxy_get_header_map_pairs(REQUEST_HEADERS, pairs, length) }).unwrap_or_default()
    }

    fn set_request_header(&self, name: &[u8], value: &[u8]) {
        // SAFETY: name and value outlive the call.
        unsafe { proxy_replace_header_map_value(REQUEST_HEADERS, name.as_ptr(), name.len(), value.as_ptr(), value.len()) };
    }

    fn remove_request_header(&self, name: &[u8]) {
        // SAFETY: the name outlives the call.
        unsafe { proxy_remove_header_map_value(REQUEST_HEADERS, name.as_ptr(), name.len()) };
    }
}

impl Control for Envoy {
    fn now(&self) -> u64 {
        let mut nanoseconds = 0;
        // SAFETY: the place for the time outlives the call.
        unsafe { clock_time_get(MONOTONIC, 0, &mut nanoseconds) };
        nanoseconds / 1_000_000
    }

    fn wall_clock(&self) -> u64 {
        let mut nanoseconds = 0;
        // SAFETY: the place for the time outlives the call.
        unsafe { proxy_get_current_time_nanoseconds(&mut nanoseconds) };
        nanoseconds / 1_000_000
    }

    fn set(&self, gauge: Metric, value: u64) {
        proxy_record_metric(gauge.0, value);
    }

    fn shared(&self, key: &str) -> Option<(Vec<u8>, u32)> {
        let mut generation = 0;
        // SAFETY: the key and the place for the generation outlive the call, and the host fills memory of `taken`'s making.
        let value = taken(|value, length| unsafe { proxy_get_shared_data(key.as_ptr(), key.len(), value, length, &mut generation) })?;
        Some((value, generation))
    }

    fn share(&self, key: &str, value: &[u8], generation: Option<u32>) -> bool {
        // Generation 0 would replace whatever is there. One that nobody has yet creates a missing key, and only that.
        let generation = generation.unwrap_or(u32::MAX);
        // SAFETY: key and value outlive the call.
        let status = unsafe { proxy_set_shared_data(key.as_ptr(), key.len(), value.as_ptr(), value.len(), generation) };
        status == OK
    }

    fn queue(&self, name: &str) -> Option<u32> {
        let mut queue = 0;
        // SAFETY: the name and the place for the number outlive the call.
        let status = unsafe { proxy_register_shared_queue(name.as_ptr(), name.len(), &mut queue) };
        (status == OK).then_some(queue)
    }

    fn send(&self, queue: u32, message: &[u8]) -> bool {
        // SAFETY: the message outlives the call.
        let status = unsafe { proxy_enqueue_shared_queue(queue, message.as_ptr(), message.len()) };
        status == OK
    }

    fn receive(&self, queue: u32) -> Option<Vec<u8>> {
        // SAFETY: the host fills memory of `taken`'s making.
        taken(|message, length| unsafe { proxy_dequeue_shared_queue(queue, message, length) })
    }

    fn tick_every(&self, period: u32) {
        proxy_set_tick_period_milliseconds(period);
    }

    fn call(&self, cluster: &str, method: &str, path: &str, patience: u64) -> Option<u32> {
        let headers = serialise(&[(":method", method), (":path", path), (":authority", cluster), ("content-length", "0")]);
        let patience = u32::try_from(patience).unwrap_or(u32::MAX);
        let nothing = 0_u32.to_le_bytes();
        let mut call = 0;
        // SAFETY: all texts and the place for the number outlive the call.
        let status = unsafe {
            proxy_http_call(
                cluster.as_ptr(),
                cluster.len(),
                headers.as_ptr(),
                headers.len(),
                ptr::null(),
                0,
                nothing.as_ptr(),
                nothing.len(),
                patience,
                &mut call,
            )
        };
        (status == OK).then_some(call)
    }

    fn called_status(&self) -> Option<u16> {
        digits(&self.called_header(":status")?)
    }

    fn called_header(&self, name: &str) -> Option<Vec<u8>> {
        // SAFETY: the name outlives the call, and the host fills memory of `taken`'s making.
        taken(|value, length| unsafe { proxy_get_header_map_value(CALL_HEADERS, name.as_ptr(), name.len(), value, length) })
    }

    fn called_body(&self, length: usize) -> Vec<u8> {
        // SAFETY: the host fills memory of `taken`'s making.
        taken(|bytes, size| unsafe { proxy_get_buffer_bytes(CALL_BODY, 0, length, bytes, size) }).unwrap_or_default()
    }

    fn answer(&self, stream: u32, status: u16, headers: &[(&str, &str)], body: &str) {
        if !self.enter(stream) {
            return;
        }
        let headers = serialise(headers);
        let no_grpc = -1;
        // SAFETY: all texts outlive the call.
        unsafe {
            proxy_send_local_response(status.into(), ptr::null(), 0, body.as_ptr(), body.len(), headers.as_ptr(), headers.len(), no_grpc)
        };
    }

    fn cut(&self, stream: u32) {
        if self.enter(stream) {
            proxy_close_stream(REQUEST);
        }
    }

    fn enter(&self, stream: u32) -> bool {
        proxy_set_effective_context(stream) == OK
    }
}

/// Takes over what the host wrote into memory that it allocated through the module.
fn taken(call: impl FnOnce(*mut *mut u8, *mut usize) -> u32) -> Option<Vec<u8>> {
    let mut start = ptr::null_mut();
    let mut length = 0;
    if call(&mut start, &mut length) != OK {
        return None;
    }
    if start.is_null() {
        return Some(Vec::new());
    }
    // SAFETY: the host got exactly these bytes from `proxy_on_memory_allocate`, filled them, and gives them away with this call.
    Some(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(start, length)) }.into_vec())
}
