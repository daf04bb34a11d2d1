//! The host calls that the module makes, as traits. Only `crate::envoy` implements them with the
//! SDK; tests, the model checker and the fuzz targets have separate hosts.

pub use laststream_drain::requests::Level;
use laststream_drain::state::Moment;

/// A metric, by its number in this VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Metric(pub u32);

/// The kinds of metrics in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum MetricKind {
    /// It only goes up.
    Counter = 0,
    /// It goes up and down. The VMs of all workers share one atomic value for each name.
    Gauge = 1,
}

/// The host calls that a stream needs. A call that fails returns nothing; none of them panics.
pub trait Host {
    /// Writes a line to Envoy's log.
    fn log(&self, level: Level, line: &str);
    /// Defines a metric, or returns the existing one of that name.
    fn define_metric(&self, kind: MetricKind, name: &str) -> Option<Metric>;
    /// Adds to a metric.
    fn increment_metric(&self, metric: Metric, amount: i64);
    /// Makes a counter visible, by adding zero.
    fn make_visible(&self, counter: Metric);
    /// The value of a metric over all workers.
    fn get_metric(&self, metric: Metric) -> Option<u64>;
    /// A property; the parts of its path are separated by zero bytes.
    fn property(&self, path: &str) -> Option<Vec<u8>>;
    /// All request headers, serialised (see [`crate::headers`]). Only in the callback for request
    /// headers.
    fn request_headers(&self) -> Vec<u8>;
    /// Replaces all values of a request header.
    fn set_request_header(&self, name: &str, value: &[u8]);
    /// Removes all values of a request header.
    fn remove_request_header(&self, name: &[u8]);
}

/// The host calls that the census and the gate need in addition.
pub trait Control: Host {
    /// The time of the monotonic clock, which all VMs share.
    fn monotonic_time(&self) -> Moment;
    /// Milliseconds of the wall clock, which may step at any time. Only for comparison with times
    /// from Envoy.
    fn wall_clock(&self) -> u64;
    /// Sets a gauge.
    fn record_metric(&self, gauge: Metric, value: u64);
    /// Shared data of all VMs with this VM id, and its generation.
    fn get_shared_data(&self, key: &str) -> Option<(Vec<u8>, u32)>;
    /// Sets shared data, if it still has that generation.
    fn set_shared_data(&self, key: &str, value: &[u8], generation: Option<u32>) -> bool;
    /// Registers a queue of this root context, under a unique name.
    fn register_queue(&self, name: &str) -> Option<u32>;
    /// Adds a message to any queue; false if the queue no longer exists.
    fn enqueue(&self, queue: u32, message: &[u8]) -> bool;
    /// Removes a message from a queue of this root context.
    fn dequeue(&self, queue: u32) -> Option<Vec<u8>>;
    /// Sets the period of ticks in milliseconds; 0 for none.
    fn set_tick_period(&self, period: u32);
    /// Sends a request to a cluster. The response has the number that this returns.
    fn dispatch_http_call(
        &self,
        cluster: &str,
        method: &str,
        path: &str,
        patience: u64,
    ) -> Option<u32>;
    /// The status of the response in this callback; none if the call failed.
    fn call_response_status(&self) -> Option<u16>;
    /// The first value of a header of that response.
    fn call_response_header(&self, name: &str) -> Option<Vec<u8>>;
    /// The body of that response.
    fn call_response_body(&self, length: usize) -> Vec<u8>;
    /// Answers a stream. Two answers to one stream in one callback crash Envoy.
    fn send_http_response(&self, stream: u32, status: u16, headers: &[(&str, &str)], body: &str);
    /// Resets a stream, without an answer.
    fn reset_stream(&self, stream: u32);
    /// Sets the context whose properties are read and set; false if it no longer exists.
    fn set_effective_context(&self, stream: u32) -> bool;
    /// Sets a property of the current stream. Every filter of the stream can read it, also in
    /// another VM.
    fn set_property(&self, name: &str, value: &[u8]) -> bool;
}

/// The body of a request or of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// The body that the client sends.
    Request,
    /// The body that the upstream sends.
    Response,
}

/// The host calls of callbacks for bodies, in the module of the frame filter.
pub trait BodyHost: Control {
    /// A part of the chunk, or as much of it as there is.
    fn body(&self, body: Body, start: usize, length: usize) -> Vec<u8>;
    /// Sends these bytes on in place of the chunk.
    fn replace_body(&self, body: Body, bytes: &[u8]);
}

/// A function from the current value to the new one; none leaves it unchanged.
pub(crate) type Update<'u> = &'u mut dyn FnMut(Option<&[u8]>) -> Option<Vec<u8>>;

/// Updates shared data, and tries again if another VM has changed it meanwhile. False: every try
/// failed.
pub(crate) fn compare_and_set_shared(host: &impl Control, key: &str, update: Update<'_>) -> bool {
    for _ in 0..TRIES {
        let shared = host.get_shared_data(key);
        let (value, generation) =
            shared.map_or((None, None), |(value, generation)| (Some(value), Some(generation)));
        match update(value.as_deref()) {
            None => return true,
            Some(fresh) if host.set_shared_data(key, &fresh, generation) => return true,
            Some(_) => {}
        }
    }
    false
}

/// The most tries of an update. There are fewer workers that could change the value meanwhile.
const TRIES: usize = 1_000;
