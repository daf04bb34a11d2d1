//! The life of a stream: counted at its request headers, subtracted at its end.

use std::rc::Rc;

use laststream_drain::state::Moment;

use super::headers::LazyHeaders;
use super::plugin::Plugin;
use super::rules;
use super::scheme::restore_scheme;
use crate::census::{KeptKind, ListedStream, StreamKind};
use crate::host::{Control, Host};
use crate::metrics;

/// The module's record of a stream.
#[derive(Debug)]
pub(crate) struct Stream {
    plugin: Rc<Plugin>,
    counted: Counted,
    /// None if the configuration does not ask for kinds, or the stream is not counted.
    kept_kind: Option<KeptKind>,
    /// None unless the configuration asks for ages or kinds.
    began: Option<Moment>,
}

/// How a stream is counted. Envoy also creates a context for streams whose request headers never
/// arrive (431, missing host): those are not counted, and must not be subtracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Counted {
    No,
    Excluded,
    Plain,
    LongLived,
}

impl Stream {
    pub(crate) fn new(plugin: Rc<Plugin>) -> Self {
        Self { plugin, counted: Counted::No, kept_kind: None, began: None }
    }

    /// A stream in the middle of its life: a state of the model checker.
    #[cfg(all(test, not(target_arch = "wasm32")))]
    pub(crate) fn resumed(plugin: Rc<Plugin>, counted: Counted) -> Self {
        Self { plugin, counted, kept_kind: None, began: None }
    }

    #[cfg(all(test, not(target_arch = "wasm32")))]
    pub(crate) fn counted(&self) -> Counted {
        self.counted
    }

    /// The request headers have arrived. False: the latch is closed, and the stream must not go on.
    pub(crate) fn on_request_headers(&mut self, host: &impl Control) -> bool {
        let mut headers = LazyHeaders::new(host);
        if self.counted == Counted::No {
            self.counted = self.count(host, &mut headers);
            self.keep(host, &mut headers);
        }
        // Counted first and checked second: see `Worker::close_latch`.
        if matches!(self.counted, Counted::Plain | Counted::LongLived) && self.is_refused(host) {
            return false;
        }
        if let Some(policy) = &self.plugin.config.forwarded_proto {
            restore_scheme(&self.plugin, policy, host, &mut headers);
        }
        true
    }

    /// Keeps what the configuration asks for.
    fn keep<H: Control>(&mut self, host: &H, headers: &mut LazyHeaders<'_, H>) {
        let config = &self.plugin.config;
        if (config.ages || config.kinds) && self.counted != Counted::Excluded {
            let now = host.monotonic_time();
            self.began = Some(now);
            self.kept_kind = config.kinds.then(|| KeptKind::new(headers.get(), now));
        }
    }

    /// Whether the latch is closed. Checked only for as long as a gate requests it.
    fn is_refused(&self, host: &impl Control) -> bool {
        let checks_until = &self.plugin.counter.checks_latch_until;
        let Some(until) = checks_until.get() else { return false };
        let now = host.monotonic_time();
        if now >= until {
            checks_until.set(None); // later streams need not even read the clock
            return false;
        }
        host.get_metric(self.plugin.metrics.closing).is_some_and(|until| until > now.0)
    }

    /// The stream has ended, in any way. A second call does nothing.
    pub(crate) fn on_end(&mut self, host: &impl Host) {
        let Plugin { metrics, counter, .. } = &*self.plugin;
        let counted = core::mem::replace(&mut self.counted, Counted::No);
        if counted == Counted::LongLived {
            host.increment_metric(metrics.long_lived.metric, -1);
            counter.long_lived.update(|long_lived| long_lived - 1);
        }
        match counted {
            Counted::No => {}
            Counted::Excluded => counter.excluded.update(|excluded| excluded - 1),
            Counted::Plain | Counted::LongLived => {
                host.increment_metric(metrics.in_flight, -1);
                counter.in_flight.update(|in_flight| in_flight - 1);
            }
        }
    }

    /// Increments `in_flight` before `begun`, because the gate reads them in that order: if
    /// `in_flight` is 0 and `begun` has not changed, no stream existed in between. `long_lived`
    /// goes up last and down first: a gate that reads it after `in_flight`, with `begun` unchanged,
    /// never subtracts too much.
    fn count<H: Control>(&self, host: &H, headers: &mut LazyHeaders<'_, H>) -> Counted {
        let Plugin { config, metrics, counter, .. } = &*self.plugin;
        counter.enter_index(host, config.scope);
        let route = || host.property("xds\0route_name").unwrap_or_default();
        if !config.exclude.is_empty() && rules::any(&config.exclude, headers.get(), route) {
            if !metrics.excluded.increment(host) {
                self.plugin.report_rejected(host, &metrics::excluded(config.scope));
            }
            counter.excluded.update(|excluded| excluded + 1);
            return Counted::Excluded;
        }
        host.increment_metric(metrics.in_flight, 1);
        if !metrics.begun.increment(host) {
            self.plugin.report_rejected(host, &metrics::begun(config.scope));
        }
        counter.in_flight.update(|in_flight| in_flight + 1);
        if !config.long_lived.is_empty() && rules::any(&config.long_lived, headers.get(), route) {
            self.plugin.count_long_lived(host);
            return Counted::LongLived;
        }
        Counted::Plain
    }
}

impl ListedStream for Stream {
    fn is_plain(&self) -> bool {
        self.counted == Counted::Plain
    }

    fn is_long_lived(&self) -> bool {
        self.counted == Counted::LongLived
    }

    fn become_long_lived(&mut self, host: &impl Control) {
        self.counted = Counted::LongLived;
        self.plugin.count_long_lived(host);
    }

    fn began(&self) -> Option<Moment> {
        self.began
    }

    fn kept_kind(&mut self) -> Option<&mut KeptKind> {
        self.kept_kind.as_mut()
    }

    fn count_eviction(&self, host: &impl Control, kind: StreamKind) {
        for metric in self.plugin.metrics.evictions(kind) {
            host.increment_metric(metric, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Plugin, Stream};
    use crate::fake::Fake;
    use crate::host::{Control as _, Host as _, MetricKind};

    #[wasm_bindgen_test(unsupported = test)]
    fn a_refused_stream_is_counted_and_left_as_it_is() {
        let host = Fake::with_headers(&[
            ("x-forwarded-proto", "http"),
            ("x-laststream-forwarded-proto", "https"),
        ]);
        host.properties.borrow_mut().insert("filter_state/laststream.direct_peer", "10.1.2.3");
        host.clock.set(1_000);
        let closing =
            host.define_metric(MetricKind::Gauge, crate::metrics::CLOSING).expect("a gauge");
        host.record_metric(closing, 2_000);
        let text =
            r#"{"forwarded_proto": {"trust": {"peers": ["10.0.0.0/8"]}, "presets": ["gcp"]}}"#;
        let config = crate::config::parse(text.as_bytes()).expect(text);
        let plugin = Plugin::new(&host, config).expect(text);
        let mut stream = Stream::new(Rc::new(plugin));
        assert!(!stream.on_request_headers(&host), "a new counter checks the latch for a while");
        assert_eq!(
            (host.metric_of("in_flight"), host.writes.get(), host.metric_of("overridden")),
            (1, 0, 0)
        );
        stream.on_end(&host);
        assert_eq!(host.metric_of("in_flight"), 0);
        host.clock.set(2_000);
        assert!(stream.on_request_headers(&host), "the latch runs out");
    }
}
