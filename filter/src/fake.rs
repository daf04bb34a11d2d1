//! An Envoy that fits into a test: metrics by name, properties, the headers of one request.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use crate::headers::serialise;
use crate::host::{Host, Kind, Level, Metric};

#[derive(Default)]
pub(crate) struct Fake {
    names: RefCell<Vec<String>>,
    values: RefCell<BTreeMap<String, i64>>,
    pub(crate) shown: RefCell<Vec<String>>,
    /// Metrics whose names contain this stay zero, as a stats matcher has it.
    pub(crate) rejects: RefCell<Option<&'static str>>,
    pub(crate) properties: RefCell<BTreeMap<&'static str, &'static str>>,
    pub(crate) headers: RefCell<Vec<(String, Vec<u8>)>>,
    pub(crate) lines: RefCell<Vec<String>>,
    pub(crate) reads: Cell<usize>,
    pub(crate) writes: Cell<usize>,
}

impl Fake {
    pub(crate) fn with_headers(headers: &[(&str, &str)]) -> Self {
        let fake = Self::default();
        fake.request(headers);
        fake
    }

    /// The next request's headers.
    pub(crate) fn request(&self, headers: &[(&str, &str)]) {
        *self.headers.borrow_mut() = headers.iter().map(|(name, value)| ((*name).into(), value.as_bytes().to_vec())).collect();
    }

    /// A metric by its short name: `in_flight` for `laststream_streams_in_flight_gateway`.
    pub(crate) fn metric_of(&self, part: &str) -> i64 {
        self.values.borrow().iter().filter(|(name, _)| name.contains(part)).map(|(_, value)| value).sum()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let headers = self.headers.borrow();
        let values: Vec<_> = headers.iter().filter(|(other, _)| other == name).map(|(_, value)| String::from_utf8_lossy(value)).collect();
        (!values.is_empty()).then(|| values.join("|"))
    }

    fn name(&self, metric: Metric) -> String {
        self.names.borrow()[metric.0 as usize].clone()
    }
}

impl Host for Fake {
    fn log(&self, _level: Level, line: &str) {
        self.lines.borrow_mut().push(line.into());
    }

    fn metric(&self, _kind: Kind, name: &str) -> Option<Metric> {
        let mut names = self.names.borrow_mut();
        names.push(name.into());
        self.values.borrow_mut().entry(name.into()).or_default();
        Some(Metric(names.len() as u32 - 1))
    }

    fn add(&self, metric: Metric, amount: i64) {
        let name = self.name(metric);
        if self.rejects.borrow().is_none_or(|part| !name.contains(part)) {
            *self.values.borrow_mut().entry(name).or_default() += amount;
        }
    }

    fn show(&self, counter: Metric) {
        let name = self.name(counter);
        self.shown.borrow_mut().push(name);
    }

    fn value(&self, metric: Metric) -> Option<u64> {
        self.values.borrow().get(&self.name(metric)).map(|value| *value as u64)
    }

    fn property(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.reads.set(self.reads.get() + 1);
        let path = String::from_utf8_lossy(path).replace('\0', "/");
        self.properties.borrow().get(path.as_str()).map(|value| value.as_bytes().to_vec())
    }

    fn request_headers(&self) -> Vec<u8> {
        self.reads.set(self.reads.get() + 1);
        serialise(self.headers.borrow().iter().map(|(name, value)| (name.as_str(), value.as_slice())))
    }

    fn set_request_header(&self, name: &[u8], value: &[u8]) {
        self.remove_request_header(name);
        self.headers.borrow_mut().push((String::from_utf8_lossy(name).into(), value.to_vec()));
    }

    fn remove_request_header(&self, name: &[u8]) {
        self.writes.set(self.writes.get() + 1);
        self.headers.borrow_mut().retain(|(other, _)| other.as_bytes() != name);
    }
}
