//! Calls to the host, as a [`Host`].

use std::ptr;

use crate::host::{Host, Kind, Level, Metric};

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
}

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
