//! A host for unit tests: metrics by name, properties, the headers of one request.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use laststream_drain::state::Moment;

use crate::headers::serialise;
use crate::host::{Body, BodyHost, Control, Host, Level, Metric, MetricKind};
use crate::lifecycle::{Flow, HttpStream, Root};
use crate::memory::Memory;

/// The contexts of one VM by their numbers, like the SDK's dispatcher.
#[derive(Default)]
pub(crate) struct Contexts {
    roots: BTreeMap<u32, Root>,
    streams: BTreeMap<u32, HttpStream>,
}

impl Contexts {
    /// One root with this configuration, which must be valid.
    pub(crate) fn configured(root: u32, host: &Fake, text: &str) -> Self {
        let mut contexts = Self::default();
        contexts.create(root, 0);
        assert!(contexts.configure(root, host, text.as_bytes()), "{:?}", host.lines);
        contexts
    }

    /// A context without parent is a root context.
    pub(crate) fn create(&mut self, context: u32, parent: u32) {
        match self.roots.get(&parent) {
            Some(root) => drop(self.streams.insert(context, root.create_stream(context))),
            None => drop(self.roots.insert(context, Root::new(context))),
        }
    }

    pub(crate) fn configure(&mut self, root: u32, host: &Fake, text: &[u8]) -> bool {
        self.roots.get_mut(&root).is_some_and(|root| root.on_configure(host, text))
    }

    pub(crate) fn on_request_headers(&mut self, stream: u32, host: &Fake) -> Flow {
        self.streams
            .get_mut(&stream)
            .map_or(Flow::Continue, |stream| stream.on_request_headers(host))
    }

    /// Envoy destroys each context once.
    pub(crate) fn on_done(&mut self, context: u32, host: &Fake) {
        if let Some(mut stream) = self.streams.remove(&context) {
            stream.on_delete(host);
        } else if let Some(mut root) = self.roots.remove(&context) {
            root.on_delete(host);
        }
    }
}

#[derive(Default)]
pub(crate) struct Fake {
    names: RefCell<Vec<String>>,
    values: RefCell<BTreeMap<String, i64>>,
    pub(crate) shown: RefCell<Vec<String>>,
    /// The highest values that metrics were incremented to.
    pub(crate) peaks: RefCell<BTreeMap<String, i64>>,
    /// Metrics whose names contain this stay zero, as if the stats matcher rejected them.
    pub(crate) rejects: RefCell<Option<&'static str>>,
    pub(crate) properties: RefCell<BTreeMap<&'static str, &'static str>>,
    /// The chunk of a body that the module sees and can replace.
    pub(crate) chunk: RefCell<Vec<u8>>,
    /// How many bytes of chunks were read.
    pub(crate) body_reads: Cell<usize>,
    pub(crate) headers: RefCell<Vec<(String, Vec<u8>)>>,
    pub(crate) lines: RefCell<Vec<String>>,
    pub(crate) reads: Cell<usize>,
    pub(crate) writes: Cell<usize>,
    /// Milliseconds.
    pub(crate) clock: Cell<u64>,
    /// How far the wall clock is ahead of `clock`; milliseconds.
    pub(crate) step: Cell<i64>,
    /// How often the clock was read.
    pub(crate) clock_reads: Cell<usize>,
    memory: Memory,
    /// What another worker stores under a key just before the next store under it.
    pub(crate) overtakes: RefCell<BTreeMap<String, Vec<u8>>>,
    /// Queues cannot be registered.
    pub(crate) has_no_queues: Cell<bool>,
    pub(crate) period: Cell<u32>,
    pub(crate) calls: RefCell<Vec<String>>,
    /// The status of the response to a call.
    pub(crate) response: Cell<Option<u16>>,
    pub(crate) answers: RefCell<Vec<(u32, u16, String)>>,
    pub(crate) resets: RefCell<Vec<u32>>,
    /// Contexts that no longer exist.
    pub(crate) gone: RefCell<Vec<u32>>,
    effective: Cell<u32>,
    /// Properties of single streams, by context and name.
    pub(crate) set_properties: RefCell<BTreeMap<(u32, String), Vec<u8>>>,
}

impl Fake {
    pub(crate) fn with_headers(headers: &[(&str, &str)]) -> Self {
        let fake = Self::default();
        fake.request(headers);
        fake
    }

    /// The next request's headers.
    pub(crate) fn request(&self, headers: &[(&str, &str)]) {
        *self.headers.borrow_mut() = headers
            .iter()
            .map(|(name, value)| ((*name).into(), value.as_bytes().to_vec()))
            .collect();
    }

    /// A metric by its short name: `in_flight` for `laststream_streams_in_flight_gateway`.
    pub(crate) fn metric_of(&self, part: &str) -> i64 {
        self.values
            .borrow()
            .iter()
            .filter(|(name, _)| name.contains(part))
            .map(|(_, value)| value)
            .sum()
    }

    /// The highest value that a metric was incremented to.
    pub(crate) fn peak_of(&self, part: &str) -> i64 {
        let peaks = self.peaks.borrow();
        let peaks = peaks.iter().filter(|(name, _)| name.contains(part));
        peaks.map(|(_, peak)| *peak).max().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let headers = self.headers.borrow();
        let values: Vec<_> = headers
            .iter()
            .filter(|(other, _)| other == name)
            .map(|(_, value)| String::from_utf8_lossy(value))
            .collect();
        (!values.is_empty()).then(|| values.join("|"))
    }

    fn counts(&self, name: &str) -> bool {
        self.rejects.borrow().is_none_or(|part| !name.contains(part))
    }

    fn name(&self, metric: Metric) -> String {
        self.names.borrow()[metric.0 as usize].clone()
    }
}

impl Host for Fake {
    fn log(&self, _level: Level, line: &str) {
        self.lines.borrow_mut().push(line.into());
    }

    fn define_metric(&self, _kind: MetricKind, name: &str) -> Option<Metric> {
        let mut names = self.names.borrow_mut();
        names.push(name.into());
        self.values.borrow_mut().entry(name.into()).or_default();
        Some(Metric(names.len() as u32 - 1))
    }

    fn increment_metric(&self, metric: Metric, amount: i64) {
        let name = self.name(metric);
        if self.counts(&name) {
            let mut values = self.values.borrow_mut();
            let value = values.entry(name.clone()).or_default();
            *value += amount;
            let mut peaks = self.peaks.borrow_mut();
            let peak = peaks.entry(name).or_default();
            *peak = (*peak).max(*value);
        }
    }

    fn make_visible(&self, counter: Metric) {
        let name = self.name(counter);
        self.shown.borrow_mut().push(name);
    }

    fn get_metric(&self, metric: Metric) -> Option<u64> {
        self.values.borrow().get(&self.name(metric)).map(|value| *value as u64)
    }

    fn property(&self, path: &str) -> Option<Vec<u8>> {
        self.reads.set(self.reads.get() + 1);
        let key = (self.effective.get(), path.into());
        if let Some(value) = self.set_properties.borrow().get(&key) {
            return Some(value.clone());
        }
        let path = path.replace('\0', "/");
        self.properties.borrow().get(path.as_str()).map(|value| value.as_bytes().to_vec())
    }

    fn request_headers(&self) -> Vec<u8> {
        self.reads.set(self.reads.get() + 1);
        serialise(&self.headers.borrow())
    }

    fn set_request_header(&self, name: &str, value: &[u8]) {
        self.remove_request_header(name.as_bytes());
        self.headers.borrow_mut().push((name.into(), value.to_vec()));
    }

    fn remove_request_header(&self, name: &[u8]) {
        self.writes.set(self.writes.get() + 1);
        self.headers.borrow_mut().retain(|(other, _)| other.as_bytes() != name);
    }
}

impl Control for Fake {
    fn monotonic_time(&self) -> Moment {
        self.clock_reads.set(self.clock_reads.get() + 1);
        Moment(self.clock.get())
    }

    fn wall_clock(&self) -> u64 {
        self.clock.get().wrapping_add_signed(self.step.get())
    }

    fn record_metric(&self, gauge: Metric, value: u64) {
        let name = self.name(gauge);
        if self.counts(&name) {
            self.values.borrow_mut().insert(name, value as i64);
        }
    }

    fn get_shared_data(&self, key: &str) -> Option<(Vec<u8>, u32)> {
        self.memory.get(key)
    }

    fn set_shared_data(&self, key: &str, value: &[u8], generation: Option<u32>) -> bool {
        let theirs = self.overtakes.borrow_mut().remove(key);
        if let Some(theirs) = theirs {
            let current = self.get_shared_data(key).map(|(_, generation)| generation);
            self.set_shared_data(key, &theirs, current);
        }
        self.memory.set(key, value, generation)
    }

    fn register_queue(&self, _name: &str) -> Option<u32> {
        if self.has_no_queues.get() {
            return None;
        }
        self.memory.register()
    }

    fn enqueue(&self, queue: u32, message: &[u8]) -> bool {
        self.memory.push(queue, message)
    }

    fn dequeue(&self, queue: u32) -> Option<Vec<u8>> {
        self.memory.pop(queue)
    }

    fn set_tick_period(&self, period: u32) {
        self.period.set(period);
    }

    fn dispatch_http_call(
        &self,
        cluster: &str,
        method: &str,
        path: &str,
        _patience: u64,
    ) -> Option<u32> {
        let mut calls = self.calls.borrow_mut();
        calls.push(format!("{cluster} {method} {path}"));
        Some(calls.len() as u32)
    }

    /// The SDK panics if headers of a missing response are read.
    fn call_response_status(&self) -> Option<u16> {
        Some(self.response.get().expect("there is no response"))
    }

    fn call_response_header(&self, _name: &str) -> Option<Vec<u8>> {
        assert!(self.response.get().is_some(), "there is no response");
        None
    }

    fn call_response_body(&self, _length: usize) -> Vec<u8> {
        Vec::new()
    }

    fn send_http_response(&self, stream: u32, status: u16, _headers: &[(&str, &str)], body: &str) {
        self.answers.borrow_mut().push((stream, status, body.into()));
    }

    fn reset_stream(&self, stream: u32) {
        self.resets.borrow_mut().push(stream);
    }

    fn set_effective_context(&self, stream: u32) -> bool {
        self.effective.set(stream);
        !self.gone.borrow().contains(&stream)
    }

    fn set_property(&self, name: &str, value: &[u8]) -> bool {
        let key = (self.effective.get(), name.into());
        self.set_properties.borrow_mut().insert(key, value.to_vec());
        true
    }
}

impl BodyHost for Fake {
    fn body(&self, _body: Body, start: usize, length: usize) -> Vec<u8> {
        let chunk = self.chunk.borrow();
        let end = chunk.len().min(start + length);
        self.body_reads.set(self.body_reads.get() + end - start);
        chunk[start..end].to_vec()
    }

    fn replace_body(&self, _body: Body, bytes: &[u8]) {
        *self.chunk.borrow_mut() = bytes.to_vec();
    }
}
