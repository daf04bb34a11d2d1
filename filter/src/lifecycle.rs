//! The life of root contexts and HTTP contexts, without the SDK: `crate::contexts` forwards each
//! callback to these types, and tests and fuzz targets call them without Envoy.

use core::cell::RefCell;
use std::rc::Rc;

use laststream_drain::state::{Queue, StreamNumber};
use laststream_drain::timing::FIRST_TICK;
use slab::Slab;

use crate::census::Counter;
use crate::config::wire::Scope;
use crate::config::{self, Refused, fault, wire};
use crate::gate::Gate;
use crate::gate::policy::GatePolicy;
use crate::host::{Control, Level};
use crate::stream::{Plugin, Stream};

/// A root context: one configuration of the module on one worker. Filters that share a VM, and old
/// and new configurations of one filter, have root contexts side by side.
#[derive(Debug)]
pub struct Root {
    id: u32,
    /// None before the root context is configured, and if its configuration was refused.
    role: Option<Role>,
}

#[derive(Debug)]
enum Role {
    Stream(Rc<CountingRoot>),
    Gate(Rc<RefCell<Gate>>, Option<Beat>),
}

/// The gate's own reply to a round of the census, where Envoy's count is the only one and there are
/// no counters: it shows whether this worker stands still.
#[derive(Debug)]
struct Beat {
    counter: Counter,
    scope: Scope,
}

impl Beat {
    fn new(policy: &GatePolicy) -> Option<Self> {
        let drain = &policy.drain;
        drain.by_envoy.then(|| Self { counter: Counter::beat(), scope: drain.scopes[0] })
    }
}

/// A counter, and its streams.
#[derive(Debug)]
struct CountingRoot {
    plugin: Rc<Plugin>,
    /// The streams, with the numbers of their contexts. They are stored here and not in their
    /// contexts, because the SDK's table of contexts cannot be iterated.
    streams: RefCell<Slab<(u32, Stream)>>,
}

impl CountingRoot {
    fn visit(&self, visit: &mut dyn FnMut(u32, &mut Stream)) {
        for (_, (context, stream)) in &mut *self.streams.borrow_mut() {
            visit(*context, stream);
        }
    }
}

/// An HTTP context. All roles share one type, because each type that implements the SDK's traits
/// adds a hundred default methods to the module.
#[derive(Debug)]
pub struct HttpStream(Kind);

#[derive(Debug)]
enum Kind {
    /// The stream is counted, unless a rule excludes it. `key` is its place in
    /// [`CountingRoot::streams`].
    Counted { id: u32, key: usize, root: Rc<CountingRoot> },
    /// The stream is a request to the gate. `has_begun`: its request headers have arrived.
    GateRequest { id: u32, gate: Rc<RefCell<Gate>>, has_begun: bool },
    /// The stream belongs to a root context without configuration, or has ended. It is not counted.
    Ignored,
}

/// Whether the request goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// It goes on to the next filter.
    Continue,
    /// It stops here: it was answered, or will be.
    Stop,
}

impl Root {
    /// A root context that is not configured yet.
    #[must_use]
    pub fn new(id: u32) -> Self {
        Self { id, role: None }
    }

    /// Reads the configuration. False: Envoy rejects it, and the previous one stays active.
    pub fn on_configure(&mut self, host: &impl Control, text: &[u8]) -> bool {
        match Role::new(host, self.id, text) {
            Ok(role) => {
                self.role = Some(role);
                true
            }
            Err(refused) => {
                host.log(Level::Error, &format!("configuration refused: {}", refused.to_text()));
                false
            }
        }
    }

    /// Creates an HTTP context.
    #[must_use]
    pub fn create_stream(&self, id: u32) -> HttpStream {
        let kind = match &self.role {
            Some(Role::Stream(root)) => {
                let key =
                    root.streams.borrow_mut().insert((id, Stream::new(Rc::clone(&root.plugin))));
                Kind::Counted { id, key, root: Rc::clone(root) }
            }
            Some(Role::Gate(gate, _)) => {
                Kind::GateRequest { id, gate: Rc::clone(gate), has_begun: false }
            }
            None => Kind::Ignored,
        };
        HttpStream(kind)
    }

    /// The tick period has passed.
    pub fn on_tick(&self, host: &impl Control) {
        match &self.role {
            Some(Role::Stream(root)) => {
                let Plugin { counter, config, .. } = &*root.plugin;
                counter.enter_index(host, config.scope);
                counter.on_tick(host, &mut |visit| root.visit(visit));
            }
            Some(Role::Gate(gate, beat)) => {
                if let Some(Beat { counter, scope }) = beat {
                    counter.enter_index(host, *scope);
                }
                gate.borrow_mut().on_tick(host)
            }
            None => {}
        }
    }

    /// The queue on which a gate is asked whether its worker stands still, if Envoy's own count is
    /// the only one. A host that is no worker passes these messages on once it knows.
    #[must_use]
    pub fn beat_queue(&self) -> Option<u32> {
        match &self.role {
            Some(Role::Gate(_, Some(Beat { counter, .. }))) => counter.queue().map(|queue| queue.0),
            _ => None,
        }
    }

    /// A message is on a queue of this root context.
    pub fn on_queue_ready(&self, host: &impl Control, queue: u32) {
        match &self.role {
            Some(Role::Stream(root)) => {
                root.plugin.counter.reply_to_all(host, &mut |visit| root.visit(visit));
            }
            Some(Role::Gate(gate, beat)) => {
                if let Some(Beat { counter, scope }) = beat {
                    // A request that comes before the first tick may put it off.
                    counter.enter_index(host, *scope);
                    counter.reply_to_all::<Stream>(host, &mut |_| {});
                }
                gate.borrow_mut().on_queue_ready(host, Queue(queue))
            }
            None => {}
        }
    }

    /// A call of this root context has ended. Without headers it failed.
    pub fn on_http_call_response(
        &self,
        host: &impl Control,
        call: u32,
        num_headers: usize,
        body_size: usize,
    ) {
        if let Some(Role::Gate(gate, _)) = &self.role {
            gate.borrow_mut().on_http_call_response(host, call, num_headers, body_size);
        }
    }

    /// Envoy destroys the root context. Its streams keep the configuration that they began with.
    /// The timer of a root context that still ticks would go on for the life of the VM.
    pub fn on_delete(&mut self, host: &impl Control) {
        host.set_tick_period(0);
        match self.role.take() {
            Some(Role::Stream(root)) => root.plugin.counter.leave_index(host),
            Some(Role::Gate(gate, beat)) => {
                if let Some(Beat { counter, .. }) = beat {
                    counter.leave_index(host);
                }
                gate.borrow_mut().on_delete(host)
            }
            None => {}
        }
    }
}

impl Role {
    /// At the first tick, a counter enters the index of the census.
    fn new(host: &impl Control, root: u32, text: &[u8]) -> Result<Self, Refused> {
        let config = config::parse(text)?;
        if config.role == wire::Role::Websocket {
            return Err(fault("role", WRONG_MODULE).into());
        }
        for warning in &config.warnings() {
            host.log(Level::Warning, warning);
        }
        let summary = config.summary();
        let role = match config.gate {
            Some(policy) => {
                let beat = Beat::new(&policy);
                Self::Gate(Rc::new(RefCell::new(Gate::new(host, root, policy)?)), beat)
            }
            None => {
                host.set_tick_period(FIRST_TICK.0 as u32);
                let plugin = Rc::new(Plugin::new(host, config)?);
                Self::Stream(Rc::new(CountingRoot { plugin, streams: RefCell::default() }))
            }
        };
        host.log(Level::Info, &summary);
        Ok(role)
    }
}

const WRONG_MODULE: &str = "`websocket` is the role of another module, laststream_frames.wasm: \
                            this one is not entered for bodies";

impl HttpStream {
    /// The request headers have arrived.
    pub fn on_request_headers(&mut self, host: &impl Control) -> Flow {
        match &mut self.0 {
            Kind::Counted { id, key, root } => {
                #[cfg(all(feature = "test-deaths", target_arch = "wasm32"))]
                crate::death::stall_if_asked(host, *id);
                let goes_on = root
                    .streams
                    .borrow_mut()
                    .get_mut(*key)
                    .is_none_or(|(_, stream)| stream.on_request_headers(host));
                #[cfg(all(feature = "test-deaths", target_arch = "wasm32"))]
                crate::death::die_if_asked(host);
                if goes_on {
                    return Flow::Continue;
                }
                host.send_http_response(
                    *id,
                    503,
                    &[("retry-after", "1")],
                    "the proxy is closing\n",
                );
                Flow::Stop
            }
            Kind::GateRequest { id, gate, has_begun } => {
                #[cfg(all(feature = "test-deaths", target_arch = "wasm32"))]
                crate::death::die_if_asked(host);
                if !core::mem::replace(has_begun, true) {
                    let id = StreamNumber(*id);
                    gate.borrow_mut().on_request_headers(host, id, &host.request_headers());
                }
                Flow::Stop
            }
            Kind::Ignored => Flow::Continue,
        }
    }

    /// The stream has ended, in any way. A second call does nothing.
    pub fn on_delete(&mut self, host: &impl Control) {
        #[cfg(all(feature = "test-deaths", target_arch = "wasm32"))]
        if let Kind::Counted { id, .. } = &self.0 {
            crate::death::stall_at_end(host, *id);
        }
        match core::mem::replace(&mut self.0, Kind::Ignored) {
            Kind::Counted { key, root, .. } => {
                if let Some((_, mut stream)) = root.streams.borrow_mut().try_remove(key) {
                    stream.on_end(host);
                }
            }
            Kind::GateRequest { id, gate, has_begun: true } => {
                gate.borrow_mut().on_stream_end(host, StreamNumber(id))
            }
            Kind::GateRequest { .. } | Kind::Ignored => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::Flow;
    use crate::census::index::{Index, entries};
    use crate::census::is_rejected;
    use crate::config::wire::Scope;
    use crate::fake::{Contexts, Fake};

    const ROOT: u32 = 1;

    #[wasm_bindgen_test(unsupported = test)]
    fn counts_a_stream_once_however_it_ends() {
        let host = Fake::default();
        let mut contexts = Contexts::configured(ROOT, &host, "");
        contexts.create(2, ROOT);
        contexts.on_request_headers(2, &host);
        contexts.on_request_headers(2, &host);
        assert_eq!((host.metric_of("in_flight"), host.metric_of("begun")), (1, 1));
        contexts.on_done(2, &host);
        contexts.on_done(2, &host);
        assert_eq!((host.metric_of("in_flight"), host.metric_of("begun")), (0, 1));
        assert_eq!(
            (host.reads.get(), host.writes.get()),
            (0, 0),
            "counting alone reads and writes no header"
        );
    }

    /// Its first tick is put off by requests that are answered at once.
    #[wasm_bindgen_test(unsupported = test)]
    fn a_gate_that_is_asked_before_its_first_tick_is_known() {
        let host = Fake::default();
        let mut root = super::Root::new(ROOT);
        assert!(root.on_configure(&host, br#"{"role": "gate", "gate": {"count": "envoy"}}"#));
        assert!(entries(&host, Index::BEATS).is_empty());
        root.on_queue_ready(&host, 1);
        assert_eq!(entries(&host, Index::BEATS).len(), 1);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_root_context_stops_ticking_when_it_ends() {
        for text in ["{}", r#"{"role": "gate"}"#] {
            let host = Fake::default();
            let mut contexts = Contexts::configured(ROOT, &host, text);
            host.period.set(1_000);
            contexts.on_done(ROOT, &host);
            assert_eq!(host.period.get(), 0, "{text}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn streams_read_the_clock_only_while_they_check_the_latch() {
        let host = Fake::default();
        let mut contexts = Contexts::configured(ROOT, &host, "");
        for (stream, time, looks) in
            [(2, 1_000, 2), (3, 15_999, 1), (4, 16_000, 1), (5, 16_001, 0), (6, 21_000, 0)]
        {
            host.clock.set(time);
            host.clock_reads.set(0);
            contexts.create(stream, ROOT);
            assert_eq!(contexts.on_request_headers(stream, &host), Flow::Continue, "at {time}");
            assert_eq!(host.clock_reads.get(), looks, "at {time}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_stream_without_request_headers_is_not_subtracted() {
        let host = Fake::default();
        let mut contexts = Contexts::configured(ROOT, &host, "");
        contexts.create(2, ROOT);
        contexts.on_done(2, &host);
        contexts.on_request_headers(3, &host);
        contexts.on_done(3, &host);
        assert_eq!((host.metric_of("in_flight"), host.metric_of("begun")), (0, 0));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_refused_configuration_leaves_the_old_one() {
        let host = Fake::default();
        let mut contexts = Contexts::configured(ROOT, &host, "");
        contexts.create(2, ROOT);
        contexts.on_request_headers(2, &host);
        contexts.create(5, 0);
        assert!(!contexts.configure(5, &host, br#"{"scope": "nowhere"}"#));
        assert!(
            host.lines
                .borrow()
                .iter()
                .any(|line| line.contains("configuration refused: scope: `nowhere` is not known"))
        );
        contexts.on_done(5, &host);
        contexts.create(3, ROOT);
        contexts.on_request_headers(3, &host);
        assert_eq!(host.metric_of("in_flight"), 2);
        for stream in [2, 3] {
            contexts.on_done(stream, &host);
        }
        assert_eq!(host.metric_of("in_flight"), 0);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn streams_keep_the_configuration_they_began_with() {
        let host = Fake::default();
        let mut contexts = Contexts::configured(ROOT, &host, r#"{"scope": "inbound"}"#);
        contexts.create(2, ROOT);
        contexts.on_request_headers(2, &host);
        contexts.create(3, 0);
        assert!(contexts.configure(3, &host, br#"{"scope": "outbound"}"#));
        contexts.create(4, 3);
        contexts.on_request_headers(4, &host);
        assert_eq!(
            (host.metric_of("in_flight_inbound"), host.metric_of("in_flight_outbound")),
            (1, 1)
        );
        contexts.on_done(ROOT, &host);
        contexts.on_done(2, &host);
        assert_eq!(
            (host.metric_of("in_flight_inbound"), host.metric_of("in_flight_outbound")),
            (0, 1)
        );
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn the_probe_of_a_gauge_leaves_no_trace() {
        let host = Fake::default();
        let mut contexts = Contexts::configured(ROOT, &host, "");
        assert_eq!(host.metric_of("streams"), 0);
        assert_eq!(host.shown.borrow().len(), 2, "counters are made visible");
        contexts.create(2, ROOT);
        contexts.on_request_headers(2, &host);
        contexts.create(3, 0);
        assert!(contexts.configure(3, &host, b"{}"));
        assert_eq!(host.metric_of("in_flight"), 1);
    }

    /// A gate that read the gauge during a probe would mistake a stream in flight for an exempt
    /// one.
    #[wasm_bindgen_test(unsupported = test)]
    fn the_gauge_of_long_lived_streams_is_not_probed() {
        let host = Fake::default();
        Contexts::configured(ROOT, &host, "");
        assert_eq!((host.peak_of("in_flight"), host.peak_of("long_lived")), (1, 0));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_gauge_that_envoy_rejects_is_an_error() {
        let host = Fake::default();
        *host.rejects.borrow_mut() = Some("in_flight");
        let mut contexts = Contexts::default();
        contexts.create(ROOT, 0);
        assert!(!contexts.configure(ROOT, &host, b"{}"));
        assert!(host.lines.borrow()[0].contains("statsInclusionPrefixes"), "{:?}", host.lines);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_metric_that_envoy_rejects_is_reported_once() {
        let rules = r#"{"count": {"exclude": {"paths": [{"exact": "/probe"}]},
            "long_lived": {"paths": [{"exact": "/"}]}}}"#;
        for (rejected, logs, known) in [
            (None, false, false),
            (Some("begun"), true, true),
            (Some("excluded"), true, true),
            // It stays zero, so no stream is exempt.
            (Some("long_lived"), true, false),
        ] {
            let host = Fake::default();
            *host.rejects.borrow_mut() = rejected;
            let mut contexts = Contexts::configured(ROOT, &host, rules);
            for (stream, path) in [(2, "/"), (3, "/probe"), (4, "/"), (5, "/probe")] {
                host.request(&[(":path", path)]);
                contexts.create(stream, ROOT);
                contexts.on_request_headers(stream, &host);
            }
            let lines = host
                .lines
                .borrow()
                .iter()
                .filter(|line| line.contains("statsInclusionPrefixes"))
                .count();
            assert_eq!(lines, usize::from(logs), "{:?}", host.lines);
            assert_eq!(is_rejected(&host, Scope::Gateway), known, "{rejected:?}");
            assert!(!is_rejected(&host, Scope::Inbound));
        }
    }
}
