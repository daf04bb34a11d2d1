//! The life of a root context and of an HTTP context, apart from the SDK: `crate::contexts` hands
//! each callback on to these types, and tests and fuzz targets drive them without Envoy.

use core::cell::RefCell;
use std::rc::Rc;

use slab::Slab;

use crate::config::{self, Refused};
use crate::gate::root::Gate;
use crate::host::{Control, Level};
use crate::plugin::Plugin;
use crate::stream::Stream;

/// A root context: one configuration of the plugin on one worker. Plugins that share a VM, and old
/// and new configurations of one plugin, are roots side by side.
#[derive(Debug)]
pub struct Root {
    id: u32,
    /// None before the root is configured, and after its configuration was refused.
    role: Option<Role>,
}

#[derive(Debug)]
enum Role {
    Stream(Rc<Counter>),
    Gate(Rc<RefCell<Gate>>),
}

/// A root that counts, and its streams.
#[derive(Debug)]
struct Counter {
    plugin: Rc<Plugin>,
    /// With the numbers of their contexts. They stand here and not in their contexts, because the
    /// SDK's table of contexts cannot be walked.
    streams: RefCell<Slab<(u32, Stream)>>,
}

/// An HTTP context. One type for all roles: each type that implements the SDK's traits adds a
/// hundred default methods to the module.
#[derive(Debug)]
pub struct HttpStream(Kind);

#[derive(Debug)]
enum Kind {
    /// The stream is counted, unless a rule excludes it. `key` is its place among the streams of
    /// its root.
    Counted { id: u32, key: usize, counter: Rc<Counter> },
    /// The stream is a request to the gate. `has_begun`: its request headers have come.
    GateRequest { id: u32, gate: Rc<RefCell<Gate>>, has_begun: bool },
    /// The stream belongs to a root without configuration, or has ended. It is not counted.
    Ignored,
}

/// How the request goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// To the next filter.
    Continue,
    /// Not: it was answered, or will be.
    Stop,
}

impl Root {
    /// A root of which nothing is known before it is configured.
    #[must_use]
    pub fn new(id: u32) -> Self {
        Self { id, role: None }
    }

    /// Reads the configuration. False: Envoy refuses it, and the old one goes on.
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

    /// The logic of a new HTTP context.
    #[must_use]
    pub fn create_stream(&self, id: u32) -> HttpStream {
        let kind = match &self.role {
            Some(Role::Stream(counter)) => {
                let key = counter
                    .streams
                    .borrow_mut()
                    .insert((id, Stream::new(Rc::clone(&counter.plugin))));
                Kind::Counted { id, key, counter: Rc::clone(counter) }
            }
            Some(Role::Gate(gate)) => {
                Kind::GateRequest { id, gate: Rc::clone(gate), has_begun: false }
            }
            None => Kind::Ignored,
        };
        HttpStream(kind)
    }

    /// Time has passed.
    pub fn on_tick(&self, host: &impl Control) {
        match &self.role {
            Some(Role::Stream(counter)) => {
                let Plugin { member, config, .. } = &*counter.plugin;
                member.enter(host, config.scope, config.fingerprint);
                host.tick_every(0);
            }
            Some(Role::Gate(gate)) => gate.borrow_mut().tick(host),
            None => {}
        }
    }

    /// A message is on a queue of this root's.
    pub fn on_queue_ready(&self, host: &impl Control, queue: u32) {
        match &self.role {
            Some(Role::Stream(counter)) => counter.plugin.member.answer_all(host, &mut |visit| {
                for (_, (context, stream)) in &mut *counter.streams.borrow_mut() {
                    visit(*context, stream);
                }
            }),
            Some(Role::Gate(gate)) => gate.borrow_mut().heard(host, queue),
            None => {}
        }
    }

    /// The answer to a call of this root's is here. Without headers there was none: the call
    /// failed.
    pub fn on_http_call_response(
        &self,
        host: &impl Control,
        call: u32,
        num_headers: usize,
        body_size: usize,
    ) {
        if let Some(Role::Gate(gate)) = &self.role {
            gate.borrow_mut().called(host, call, num_headers, body_size);
        }
    }

    /// Envoy destroys the root. Its streams keep the configuration they began with.
    pub fn on_delete(&mut self, host: &impl Control) {
        if let Some(Role::Stream(counter)) = self.role.take() {
            counter.plugin.member.leave(host);
        }
    }
}

impl Role {
    /// The first tick comes soon: then a counting root enters the census.
    fn new(host: &impl Control, root: u32, text: &[u8]) -> Result<Self, Refused> {
        let config = config::parse(text)?;
        for warning in &config.warnings() {
            host.log(Level::Warning, warning);
        }
        let summary = config.summary();
        let role = match config.gate {
            Some(policy) => Self::Gate(Rc::new(RefCell::new(Gate::new(host, root, policy)?))),
            None => {
                host.tick_every(ENTER_AFTER);
                let plugin = Rc::new(Plugin::new(host, config)?);
                Self::Stream(Rc::new(Counter { plugin, streams: RefCell::default() }))
            }
        };
        host.log(Level::Info, &summary);
        Ok(role)
    }
}

/// Milliseconds.
const ENTER_AFTER: u32 = 10;

impl HttpStream {
    /// The request headers are here.
    pub fn on_request_headers(&mut self, host: &impl Control) -> Flow {
        match &mut self.0 {
            Kind::Counted { id, key, counter } => {
                let goes_on = counter
                    .streams
                    .borrow_mut()
                    .get_mut(*key)
                    .is_none_or(|(_, stream)| stream.begin(host));
                #[cfg(all(feature = "test-deaths", target_arch = "wasm32"))]
                crate::death::come(host);
                if goes_on {
                    return Flow::Continue;
                }
                host.answer(*id, 503, &[("retry-after", "1")], "the proxy is closing\n");
                Flow::Stop
            }
            Kind::GateRequest { id, gate, has_begun } => {
                #[cfg(all(feature = "test-deaths", target_arch = "wasm32"))]
                crate::death::come(host);
                if !core::mem::replace(has_begun, true) {
                    gate.borrow_mut().request(host, *id, &host.request_headers());
                }
                Flow::Stop
            }
            Kind::Ignored => Flow::Continue,
        }
    }

    /// The stream is over, in whatever way. Does nothing the second time.
    pub fn on_delete(&mut self, host: &impl Control) {
        match core::mem::replace(&mut self.0, Kind::Ignored) {
            Kind::Counted { key, counter, .. } => {
                if let Some((_, mut stream)) = counter.streams.borrow_mut().try_remove(key) {
                    stream.end(host);
                }
            }
            Kind::GateRequest { id, gate, has_begun: true } => gate.borrow_mut().gone(host, id),
            Kind::GateRequest { .. } | Kind::Ignored => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::Flow;
    use crate::census::is_rejected;
    use crate::config::wire::Scope;
    use crate::fake::{Contexts, Fake};

    const ROOT: u32 = 1;

    fn configured(host: &Fake, text: &str) -> Contexts {
        let mut contexts = Contexts::default();
        contexts.create(ROOT, 0);
        assert!(contexts.configure(ROOT, host, text.as_bytes()), "{:?}", host.lines);
        contexts
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn counts_a_stream_once_however_it_ends() {
        let host = Fake::default();
        let mut contexts = configured(&host, "");
        contexts.create(2, ROOT);
        contexts.begin(2, &host);
        contexts.begin(2, &host);
        assert_eq!((host.metric_of("in_flight"), host.metric_of("begun")), (1, 1));
        contexts.done(2, &host);
        contexts.done(2, &host);
        assert_eq!((host.metric_of("in_flight"), host.metric_of("begun")), (0, 1));
        assert_eq!(
            (host.reads.get(), host.writes.get()),
            (0, 0),
            "counting alone reads and writes no header"
        );
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn nobody_looks_at_the_clock_once_no_gate_asks_for_it() {
        let host = Fake::default();
        let mut contexts = configured(&host, "");
        for (stream, time, looks) in
            [(2, 1_000, 4), (3, 3_999, 1), (4, 4_000, 1), (5, 4_001, 0), (6, 9_000, 0)]
        {
            host.clock.set(time);
            host.looks.set(0);
            contexts.create(stream, ROOT);
            assert_eq!(contexts.begin(stream, &host), Flow::Continue, "at {time}");
            assert_eq!(host.looks.get(), looks, "at {time}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_stream_without_request_headers_is_not_taken_off() {
        let host = Fake::default();
        let mut contexts = configured(&host, "");
        contexts.create(2, ROOT);
        contexts.done(2, &host);
        contexts.begin(3, &host);
        contexts.done(3, &host);
        assert_eq!((host.metric_of("in_flight"), host.metric_of("begun")), (0, 0));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_refused_configuration_leaves_the_old_one() {
        let host = Fake::default();
        let mut contexts = configured(&host, "");
        contexts.create(2, ROOT);
        contexts.begin(2, &host);
        contexts.create(5, 0);
        assert!(!contexts.configure(5, &host, br#"{"scope": "nowhere"}"#));
        assert!(
            host.lines
                .borrow()
                .iter()
                .any(|line| line.contains("configuration refused: scope: `nowhere` is not known"))
        );
        contexts.done(5, &host);
        contexts.create(3, ROOT);
        contexts.begin(3, &host);
        assert_eq!(host.metric_of("in_flight"), 2);
        for stream in [2, 3] {
            contexts.done(stream, &host);
        }
        assert_eq!(host.metric_of("in_flight"), 0);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn streams_keep_the_configuration_they_began_with() {
        let host = Fake::default();
        let mut contexts = configured(&host, r#"{"scope": "inbound"}"#);
        contexts.create(2, ROOT);
        contexts.begin(2, &host);
        contexts.create(3, 0);
        assert!(contexts.configure(3, &host, br#"{"scope": "outbound"}"#));
        contexts.create(4, 3);
        contexts.begin(4, &host);
        assert_eq!(
            (host.metric_of("in_flight_inbound"), host.metric_of("in_flight_outbound")),
            (1, 1)
        );
        contexts.done(ROOT, &host);
        contexts.done(2, &host);
        assert_eq!(
            (host.metric_of("in_flight_inbound"), host.metric_of("in_flight_outbound")),
            (0, 1)
        );
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn the_probe_of_a_gauge_leaves_no_trace() {
        let host = Fake::default();
        let mut contexts = configured(&host, "");
        assert_eq!(host.metric_of("streams"), 0);
        assert_eq!(host.shown.borrow().len(), 2, "counters are made visible");
        contexts.create(2, ROOT);
        contexts.begin(2, &host);
        contexts.create(3, 0);
        assert!(contexts.configure(3, &host, b"{}"));
        assert_eq!(host.metric_of("in_flight"), 1);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_gauge_that_does_not_count_is_refused() {
        for gauge in ["in_flight", "long_lived"] {
            let host = Fake::default();
            *host.rejects.borrow_mut() = Some(gauge);
            let mut contexts = Contexts::default();
            contexts.create(ROOT, 0);
            assert!(!contexts.configure(ROOT, &host, b"{}"));
            assert!(host.lines.borrow()[0].contains("statsInclusionPrefixes"), "{:?}", host.lines);
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_counter_that_does_not_count_is_made_known_once() {
        let rules = r#"{"count": {"exclude": {"paths": [{"exact": "/probe"}]}}}"#;
        for (rejected, known) in [(None, false), (Some("begun"), true), (Some("excluded"), true)] {
            let host = Fake::default();
            *host.rejects.borrow_mut() = rejected;
            let mut contexts = configured(&host, rules);
            for (stream, path) in [(2, "/"), (3, "/probe"), (4, "/"), (5, "/probe")] {
                host.request(&[(":path", path)]);
                contexts.create(stream, ROOT);
                contexts.begin(stream, &host);
            }
            let lines = host
                .lines
                .borrow()
                .iter()
                .filter(|line| line.contains("statsInclusionPrefixes"))
                .count();
            assert_eq!(lines, usize::from(known), "{:?}", host.lines);
            assert_eq!(is_rejected(&host, Scope::Gateway), known, "{rejected:?}");
            assert!(!is_rejected(&host, Scope::Inbound));
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn excluded_streams_are_counted_apart() {
        let rules = r#"{"count": {"exclude": {"paths": [{"exact": "/healthz"}, {"prefix": "/internal/"}],
            "headers": [{"name": "X-Probe"}, {"name": "x-kind", "exact": "synthetic"}, {"name": "x-kind", "prefix": "test-"}], "health_checks": true}}}"#;
        for (headers, counted) in [
            (vec![(":path", "/healthz")], false),
            (vec![(":path", "/healthz?full=1")], false),
            (vec![(":path", "/healthz/")], true),
            (vec![(":path", "/internal/x")], false),
            (vec![(":path", "/internal")], true),
            (vec![(":path", "/"), ("x-probe", "")], false),
            (vec![(":path", "/"), ("x-kind", "real"), ("x-kind", "synthetic")], false),
            (vec![(":path", "/"), ("x-kind", "synthetic2")], true),
            (vec![(":path", "/"), ("x-kind", "test-1")], false),
            (vec![(":path", "/"), ("user-agent", "kube-probe/1.34")], false),
            (vec![(":path", "/"), ("user-agent", "curl (like kube-probe/1.34)")], true),
        ] {
            let host = Fake::with_headers(&headers);
            let mut contexts = configured(&host, rules);
            contexts.create(2, ROOT);
            contexts.begin(2, &host);
            assert_eq!(host.metric_of("in_flight"), i64::from(counted), "{headers:?}");
            assert_eq!(host.metric_of("excluded"), i64::from(!counted), "{headers:?}");
            contexts.done(2, &host);
            assert_eq!(host.metric_of("in_flight"), 0, "{headers:?}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn long_lived_streams_are_counted_in_both() {
        let rules = r#"{"count": {"long_lived": {"upgrades": true, "grpc": true, "event_streams": true,
            "paths": [{"prefix": "/watch"}], "headers": [{"name": "x-long"}], "routes": [{"exact": "streaming"}]}}}"#;
        for (headers, route, long) in [
            (vec![("upgrade", "websocket")], "", true),
            (vec![(":method", "CONNECT")], "", true),
            (vec![("content-type", "application/grpc+proto")], "", true),
            (vec![("content-type", "application/json")], "", false),
            (vec![("accept", "application/json, Text/Event-Stream;q=1")], "", true),
            (vec![(":path", "/watch?x")], "", true),
            (vec![("x-long", "1")], "", true),
            (vec![], "streaming", true),
            (vec![], "streaming2", false),
        ] {
            let host = Fake::with_headers(&headers);
            host.properties.borrow_mut().insert("xds/route_name", route);
            let mut contexts = configured(&host, rules);
            contexts.create(2, ROOT);
            contexts.begin(2, &host);
            assert_eq!(
                (host.metric_of("in_flight"), host.metric_of("long_lived")),
                (1, i64::from(long)),
                "{headers:?} {route}"
            );
            contexts.done(2, &host);
            assert_eq!(
                (host.metric_of("in_flight"), host.metric_of("long_lived")),
                (0, 0),
                "{headers:?} {route}"
            );
        }
    }
}
