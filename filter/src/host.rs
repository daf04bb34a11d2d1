//! What the module may ask of Envoy. Everything that decides is written against this trait; only
//! `crate::envoy` knows host calls.

/// A metric, by the number that this VM knows it under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

/// What the module may ask of Envoy. Nothing here fails loudly: an answer that Envoy does not give
/// is an answer that is not there.
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
    fn property(&self, path: &str) -> Option<Vec<u8>>;
    /// All request headers, serialised (see [`crate::headers`]). Only while the request headers are
    /// at hand.
    fn request_headers(&self) -> Vec<u8>;
    /// Sets a request header, in place of all its values.
    fn set_request_header(&self, name: &str, value: &[u8]);
    /// Removes all values of a request header.
    fn remove_request_header(&self, name: &[u8]);
}

/// What the parts that talk to each other and to the outside may ask of Envoy, beyond what a
/// request needs.
pub trait Control: Host {
    /// Milliseconds of a clock that never steps and that all VMs share; what it counts from means
    /// nothing.
    fn now(&self) -> u64;
    /// Milliseconds of the wall clock, which may step at any time. Only for comparing with times
    /// that Envoy tells.
    fn wall_clock(&self) -> u64;
    /// Sets a gauge.
    fn set(&self, gauge: Metric, value: u64);
    /// Data under a key that all VMs of this VM id see, and its generation.
    fn shared(&self, key: &str) -> Option<(Vec<u8>, u32)>;
    /// Replaces it if nobody else did since that generation.
    fn share(&self, key: &str, value: &[u8], generation: Option<u32>) -> bool;
    /// A queue of this root's own, under a name that nobody else uses.
    fn queue(&self, name: &str) -> Option<u32>;
    /// Puts a message on any queue; false when the queue is gone.
    fn send(&self, queue: u32, message: &[u8]) -> bool;
    /// Takes a message off a queue of one's own.
    fn receive(&self, queue: u32) -> Option<Vec<u8>>;
    /// From now on a tick so often, in milliseconds; 0 for none.
    fn tick_every(&self, period: u32);
    /// Sends a request to a cluster; the answer comes under the number that this gives.
    fn call(&self, cluster: &str, method: &str, path: &str, patience: u64) -> Option<u32>;
    /// The status of the answer at hand; none where there was no answer.
    fn called_status(&self) -> Option<u16>;
    /// The first value of a header of the answer at hand.
    fn called_header(&self, name: &str) -> Option<Vec<u8>>;
    /// The body of the answer at hand.
    fn called_body(&self, length: usize) -> Vec<u8>;
    /// Answers a stream that is held, or the one at hand. One answer for each stream and call of
    /// the VM: two end Envoy.
    fn answer(&self, stream: u32, status: u16, headers: &[(&str, &str)], body: &str);
    /// Ends a stream without an answer.
    fn cut(&self, stream: u32);
    /// Makes a stream the one whose properties are read.
    fn enter(&self, stream: u32) -> bool;
}

/// From what is there to what shall be there; nothing leaves it as it is.
pub(crate) type Change<'c> = &'c mut dyn FnMut(Option<&[u8]>) -> Option<Vec<u8>>;

/// Changes shared data; tries again when another VM was quicker.
pub(crate) fn change(host: &impl Control, key: &str, change: Change<'_>) -> bool {
    for _ in 0..TRIES {
        let shared = host.shared(key);
        let (value, generation) =
            shared.map_or((None, None), |(value, generation)| (Some(value), Some(generation)));
        match change(value.as_deref()) {
            None => return true,
            Some(fresh) if host.share(key, &fresh, generation) => return true,
            Some(_) => {}
        }
    }
    false
}

/// More than there are workers to be quicker.
const TRIES: usize = 1_000;
