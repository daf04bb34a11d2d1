//! The contexts that Envoy talks about by number: one root for each configured plugin, one for each stream.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;

use crate::config::{self, Refused};
use crate::gate::root::Gate;
use crate::host::{Control, Level};
use crate::numbered::Numbered;
use crate::plugin::Plugin;
use crate::stream::Stream;

/// Plugins that share a VM, and old and new configurations of one plugin, are roots side by side.
#[derive(Debug, Default)]
pub struct Contexts {
    /// A handful at most.
    roots: Vec<(u32, Root)>,
    streams: Numbered<Child>,
}

#[derive(Debug)]
enum Root {
    Stream(Rc<Plugin>),
    Gate(Box<Gate>),
}

#[derive(Debug)]
enum Child {
    Stream(Stream),
    /// A request to the gate of that root.
    Asking(u32),
}

/// How the request goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// To the next filter.
    Continue,
    /// Not: it was answered, or will be.
    Stop,
}

impl Contexts {
    /// None yet.
    pub const fn new() -> Self {
        Self { roots: Vec::new(), streams: Numbered::new() }
    }

    /// A context without parent is a root, of which there is nothing to know before it is configured. A stream of a root that never was
    /// is not counted.
    pub fn create(&mut self, context: u32, parent: u32) {
        let child = match self.roots.iter().find(|(root, _)| *root == parent) {
            Some((_, Root::Stream(plugin))) => Child::Stream(Stream::new(Rc::clone(plugin))),
            Some((_, Root::Gate(_))) => Child::Asking(parent),
            None => return,
        };
        self.streams.insert(context, child);
    }

    /// A root's configuration. False: Envoy refuses it, and the old one goes on.
    pub fn configure(&mut self, root: u32, host: &impl Control, text: &[u8]) -> bool {
        match Root::new(host, root, text) {
            Ok(fresh) => {
                self.take(root);
                self.roots.push((root, fresh));
                true
            }
            Err(refused) => {
                host.log(Level::Error, &format!("configuration refused: {}", refused.to_text()));
                false
            }
        }
    }

    /// A stream's request headers are here.
    pub fn begin(&mut self, stream: u32, host: &impl Control) -> Flow {
        let goes_on = match self.streams.get_mut(stream) {
            None => true,
            Some(Child::Stream(stream)) => {
                let goes_on = stream.begin(host);
                #[cfg(all(feature = "test-deaths", target_arch = "wasm32"))]
                crate::death::come(host);
                goes_on
            }
            Some(Child::Asking(root)) => {
                let root = *root;
                #[cfg(all(feature = "test-deaths", target_arch = "wasm32"))]
                crate::death::come(host);
                if let Some(gate) = self.gate(root) {
                    gate.request(host, stream, &host.request_headers());
                }
                return Flow::Stop;
            }
        };
        if goes_on {
            return Flow::Continue;
        }
        host.answer(stream, 503, &[("retry-after", "1")], "the proxy is closing\n");
        Flow::Stop
    }

    /// The context is over: Envoy calls this once for each, whatever became of it.
    pub fn done(&mut self, context: u32, host: &impl Control) {
        match self.streams.remove(context) {
            Some(Child::Stream(mut stream)) => stream.end(host),
            Some(Child::Asking(root)) => {
                if let Some(gate) = self.gate(root) {
                    gate.gone(host, context);
                }
            }
            None => {
                if let Some(Root::Stream(plugin)) = self.take(context) {
                    plugin.member.leave(host);
                }
            }
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, root: u32, host: &impl Control) {
        match self.root(root) {
            Some(Root::Stream(plugin)) => {
                plugin.member.enter(host, plugin.config.scope, plugin.config.fingerprint);
                host.tick_every(0);
            }
            Some(Root::Gate(gate)) => gate.tick(host),
            None => {}
        }
    }

    /// A message is on a queue of this root's.
    pub fn message(&mut self, root: u32, queue: u32, host: &impl Control) {
        match self.root(root) {
            Some(Root::Stream(plugin)) => {
                let plugin = Rc::clone(plugin);
                plugin.member.answer_all(host, &mut |look| {
                    for (context, child) in self.streams.iter_mut() {
                        if let Child::Stream(stream) = child
                            && stream.is_of(&plugin)
                        {
                            look(context, stream);
                        }
                    }
                });
            }
            Some(Root::Gate(gate)) => gate.heard(host, queue),
            None => {}
        }
    }

    /// An answer to a call of this root's is here.
    pub fn called(&mut self, root: u32, call: u32, length: usize, host: &impl Control) {
        if let Some(gate) = self.gate(root) {
            gate.called(host, call, length);
        }
    }

    fn root(&mut self, root: u32) -> Option<&mut Root> {
        self.roots.iter_mut().find(|(other, _)| *other == root).map(|(_, root)| root)
    }

    fn take(&mut self, root: u32) -> Option<Root> {
        let index = self.roots.iter().position(|(other, _)| *other == root)?;
        Some(self.roots.swap_remove(index).1)
    }

    fn gate(&mut self, root: u32) -> Option<&mut Gate> {
        if let Some(Root::Gate(gate)) = self.root(root) { Some(gate) } else { None }
    }
}

impl Root {
    /// The first tick comes soon: then a counting root enters the census.
    fn new(host: &impl Control, root: u32, text: &[u8]) -> Result<Self, Refused> {
        let config = config::parse(text)?;
        for warning in &config.warnings() {
            host.log(Level::Warning, warning);
        }
        let summary = config.summary();
        let root = match config.gate {
            Some(policy) => Self::Gate(Box::new(Gate::new(host, root, policy)?)),
            None => {
                host.tick_every(ENTER_AFTER);
                Self::Stream(Rc::new(Plugin::new(host, config)?))
            }
        };
        host.log(Level::Info, &summary);
        Ok(root)
    }
}

/// Milliseconds.
const ENTER_AFTER: u32 = 10;

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Contexts, Flow};
    use crate::census::is_rejected;
    use crate::config::wire::Scope;
    use crate::fake::Fake;

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
        assert_eq!((host.reads.get(), host.writes.get()), (0, 0), "counting alone reads and writes no header");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn nobody_looks_at_the_clock_once_no_gate_asks_for_it() {
        let host = Fake::default();
        let mut contexts = configured(&host, "");
        for (stream, time, looks) in [(2, 1_000, 4), (3, 3_999, 1), (4, 4_000, 1), (5, 4_001, 0), (6, 9_000, 0)] {
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
        assert!(host.lines.borrow().iter().any(|line| line.contains("configuration refused: scope: `nowhere` is not known")));
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
        assert_eq!((host.metric_of("in_flight_inbound"), host.metric_of("in_flight_outbound")), (1, 1));
        contexts.done(ROOT, &host);
        contexts.done(2, &host);
        assert_eq!((host.metric_of("in_flight_inbound"), host.metric_of("in_flight_outbound")), (0, 1));
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
            let lines = host.lines.borrow().iter().filter(|line| line.contains("statsInclusionPrefixes")).count();
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
            assert_eq!((host.metric_of("in_flight"), host.metric_of("long_lived")), (1, i64::from(long)), "{headers:?} {route}");
            contexts.done(2, &host);
            assert_eq!((host.metric_of("in_flight"), host.metric_of("long_lived")), (0, 0), "{headers:?} {route}");
        }
    }
}
