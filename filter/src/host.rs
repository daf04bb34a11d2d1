//! What the module may ask of Envoy. Everything that decides is written against this trait; only `crate::wasm` knows host calls.

/// A metric, by the number that this VM knows it under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric(pub u32);

/// Kinds of metrics in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Goes up.
    Counter = 0,
    /// Goes up and down. All workers' VMs that name it the same share one atomic value.
    Gauge = 1,
}

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Level {
    /// For who looks.
    Info = 2,
    /// Something the operator should change.
    Warning = 3,
    /// Something does not work.
    Error = 4,
    /// The VM ends.
    Critical = 5,
}

/// What the module may ask of Envoy. Nothing here fails loudly: an answer that Envoy does not give is an answer that is not there.
pub trait Host {
    /// Writes a line to Envoy's log.
    fn log(&self, level: Level, line: &str);
    /// Defines a metric, or finds the one of that name.
    fn metric(&self, kind: Kind, name: &str) -> Option<Metric>;
    /// Adds to a metric.
    fn add(&self, metric: Metric, amount: i64);
    /// Adds nothing to a counter, which makes it visible.
    fn show(&self, counter: Metric);
    /// The value over all workers.
    fn value(&self, metric: Metric) -> Option<u64>;
    /// A property; the parts of its path are separated by zero bytes.
    fn property(&self, path: &[u8]) -> Option<Vec<u8>>;
    /// All request headers, serialised (see [`crate::headers`]). Only while the request headers are at hand.
    fn request_headers(&self) -> Vec<u8>;
    /// Sets a request header, in place of all its values.
    fn set_request_header(&self, name: &[u8], value: &[u8]);
    /// Removes all values of a request header.
    fn remove_request_header(&self, name: &[u8]);
}
