//! A host in memory: metrics that add up, and a request whose headers can be edited.

use std::cell::RefCell;

use laststream_filter::host::{Control, Host, Kind, Level, Metric};

use crate::map::serialise;
use crate::request::Request;

/// An edit of a request's headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// A header was set.
    Set(Vec<u8>, Vec<u8>),
    /// A header was removed.
    Remove(Vec<u8>),
}

/// The host.
#[derive(Debug, Default)]
pub struct Memory {
    metrics: RefCell<Vec<(String, i64)>>,
    peer_key: Vec<u8>,
    /// The current request.
    pub request: RefCell<Request>,
    /// The edits of its headers.
    pub edits: RefCell<Vec<Edit>>,
}

impl Memory {
    /// A host that keeps the peers of its requests in filter state, under this key.
    pub fn new(peer_key: Vec<u8>) -> Self {
        Self { peer_key, ..Self::default() }
    }

    /// Sets the current request.
    pub fn serve(&self, request: Request) {
        *self.request.borrow_mut() = request;
        self.edits.borrow_mut().clear();
    }

    /// The sum of the metrics whose names begin with `start`.
    pub fn sum(&self, start: &str) -> i64 {
        self.metrics
            .borrow()
            .iter()
            .filter(|(name, _)| name.starts_with(start))
            .map(|(_, value)| value)
            .sum()
    }
}

impl Host for Memory {
    fn log(&self, _level: Level, line: &str) {
        assert!(!line.is_empty(), "an empty line in the log");
    }

    fn define_metric(&self, _kind: Kind, name: &str) -> Option<Metric> {
        let mut metrics = self.metrics.borrow_mut();
        let index = metrics.iter().position(|(other, _)| other == name).unwrap_or_else(|| {
            metrics.push((name.to_owned(), 0));
            metrics.len() - 1
        });
        u32::try_from(index).ok().map(Metric)
    }

    fn increment_metric(&self, metric: Metric, amount: i64) {
        if let Some((name, value)) = self.metrics.borrow_mut().get_mut(metric.0 as usize) {
            *value += amount;
            assert!(*value >= 0, "{name} fell below zero");
            assert!(amount >= 0 || !name.ends_with("_total"), "the counter {name} went down");
        }
    }

    fn make_visible(&self, _counter: Metric) {}

    fn get_metric(&self, metric: Metric) -> Option<u64> {
        self.metrics
            .borrow()
            .get(metric.0 as usize)
            .and_then(|(_, value)| u64::try_from(*value).ok())
    }

    fn property(&self, path: &str) -> Option<Vec<u8>> {
        let request = self.request.borrow();
        match path {
            "connection\0tls_version" => request.tls.then(|| b"TLSv1.3".to_vec()),
            "connection\0uri_san_peer_certificate" => request.identity.clone(),
            "xds\0route_name" => Some(b"route".to_vec()),
            path => request.peer.clone().filter(|_| {
                path.strip_prefix("filter_state\0").map(str::as_bytes) == Some(&self.peer_key)
            }),
        }
    }

    fn request_headers(&self) -> Vec<u8> {
        serialise(&self.request.borrow().headers)
    }

    fn set_request_header(&self, name: &str, value: &[u8]) {
        let name = name.as_bytes();
        self.edits.borrow_mut().push(Edit::Set(name.into(), value.into()));
        let headers = &mut self.request.borrow_mut().headers;
        headers.retain(|(other, _)| other != name);
        headers.push((name.into(), value.into()));
    }

    fn remove_request_header(&self, name: &[u8]) {
        self.edits.borrow_mut().push(Edit::Remove(name.into()));
        self.request.borrow_mut().headers.retain(|(other, _)| other != name);
    }
}

/// A host without other VMs, time or clusters.
impl Control for Memory {
    fn monotonic_time(&self) -> u64 {
        0
    }

    fn wall_clock(&self) -> u64 {
        0
    }

    fn record_metric(&self, gauge: Metric, value: u64) {
        if let Some((_, old)) = self.metrics.borrow_mut().get_mut(gauge.0 as usize) {
            *old = i64::try_from(value).unwrap_or(i64::MAX);
        }
    }

    fn get_shared_data(&self, _key: &str) -> Option<(Vec<u8>, u32)> {
        None
    }

    fn set_shared_data(&self, _key: &str, _value: &[u8], _generation: Option<u32>) -> bool {
        true
    }

    fn register_queue(&self, _name: &str) -> Option<u32> {
        None
    }

    fn enqueue(&self, _queue: u32, _message: &[u8]) -> bool {
        false
    }

    fn dequeue(&self, _queue: u32) -> Option<Vec<u8>> {
        None
    }

    fn set_tick_period(&self, _period: u32) {}

    fn dispatch_http_call(
        &self,
        _cluster: &str,
        _method: &str,
        _path: &str,
        _patience: u64,
    ) -> Option<u32> {
        None
    }

    fn call_response_status(&self) -> Option<u16> {
        None
    }

    fn call_response_header(&self, _name: &str) -> Option<Vec<u8>> {
        None
    }

    fn call_response_body(&self, _length: usize) -> Vec<u8> {
        Vec::new()
    }

    fn send_http_response(
        &self,
        _stream: u32,
        _status: u16,
        _headers: &[(&str, &str)],
        _body: &str,
    ) {
    }

    fn reset_stream(&self, _stream: u32) {}

    fn set_effective_context(&self, _stream: u32) -> bool {
        true
    }

    fn set_property(&self, _name: &str, _value: &[u8]) -> bool {
        true
    }
}
