//! One HTTP stream, from its request headers to its end.

use std::rc::Rc;

use crate::forwarded::{Edit, Finding, Policy, Scheme, Told};
use crate::headers::Headers;
use crate::host::{Control, Host};
use crate::metrics;
use crate::plugin::Plugin;
use crate::rules;

/// What the module keeps of a stream.
#[derive(Debug)]
pub(crate) struct Stream {
    plugin: Rc<Plugin>,
    counted: Counted,
}

/// Envoy makes a context for streams that never show request headers, too (431, missing host):
/// those are not counted, and must not be taken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Counted {
    No,
    Excluded,
    Plain,
    LongLived,
}

impl Stream {
    pub(crate) fn new(plugin: Rc<Plugin>) -> Self {
        Self { plugin, counted: Counted::No }
    }

    /// One that has come so far: a state of the model checker.
    #[cfg(all(test, not(target_arch = "wasm32")))]
    pub(crate) fn resumed(plugin: Rc<Plugin>, counted: Counted) -> Self {
        Self { plugin, counted }
    }

    #[cfg(all(test, not(target_arch = "wasm32")))]
    pub(crate) fn counted(&self) -> Counted {
        self.counted
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.counted == Counted::Plain
    }

    pub(crate) fn is_long_lived(&self) -> bool {
        self.counted == Counted::LongLived
    }

    /// A plain stream has become long-lived.
    pub(crate) fn live_long(&mut self, host: &impl Host) {
        self.counted = Counted::LongLived;
        host.add(self.plugin.metrics.long_lived, 1);
        self.plugin.member.long.update(|long| long + 1);
    }

    /// The request headers are here. False: the gate is closing, and the stream must not go on.
    pub(crate) fn begin(&mut self, host: &impl Control) -> bool {
        let mut headers = Lazy { host, map: None };
        if self.counted == Counted::No {
            self.counted = self.count(host, &mut headers);
        }
        // Counted first, and only then looks at the gate: see `Gate::signal`.
        if matches!(self.counted, Counted::Plain | Counted::LongLived) && self.gate_is_closing(host)
        {
            return false;
        }
        if let Some(policy) = &self.plugin.config.forwarded_proto {
            self.restore_scheme(policy, host, &mut headers);
        }
        true
    }

    /// Asked only while a drain goes on, and only for as long as the gate keeps saying so.
    fn gate_is_closing(&self, host: &impl Control) -> bool {
        let guards_until = &self.plugin.member.guards_until;
        if guards_until.get() == 0 {
            return false;
        }
        let now = host.now();
        if now >= guards_until.get() {
            guards_until.set(0); // nobody after it need look at the clock
            return false;
        }
        host.value(self.plugin.metrics.closing).is_some_and(|until| until > now)
    }

    /// The stream is over, in whatever way. Does nothing the second time.
    pub(crate) fn end(&mut self, host: &impl Host) {
        let Plugin { metrics, member, .. } = &*self.plugin;
        let counted = core::mem::replace(&mut self.counted, Counted::No);
        if counted == Counted::LongLived {
            host.add(metrics.long_lived, -1);
            member.long.update(|long| long - 1);
        }
        match counted {
            Counted::No => {}
            Counted::Excluded => member.excluded.update(|excluded| excluded - 1),
            Counted::Plain | Counted::LongLived => {
                host.add(metrics.in_flight, -1);
                member.live.update(|live| live - 1);
            }
        }
    }

    /// In flight goes up before begun, and who reads takes them in that order, too: if in flight is
    /// zero and begun is what it was, no stream has been there in between. Long-lived goes up last
    /// and down first: whoever reads it after in flight, with begun standing still, never subtracts
    /// too much.
    fn count<H: Control>(&self, host: &H, headers: &mut Lazy<H>) -> Counted {
        let Plugin { config, metrics, member, .. } = &*self.plugin;
        member.enter(host, config.scope, config.fingerprint);
        let route = || host.property("xds\0route_name").unwrap_or_default();
        if !config.exclude.is_empty() && rules::any(&config.exclude, headers.get(), route) {
            if !metrics.excluded.count(host) {
                self.plugin.say_rejected(host, &metrics::excluded(config.scope));
            }
            member.excluded.update(|excluded| excluded + 1);
            return Counted::Excluded;
        }
        host.add(metrics.in_flight, 1);
        if !metrics.begun.count(host) {
            self.plugin.say_rejected(host, &metrics::begun(config.scope));
        }
        member.live.update(|live| live + 1);
        if !config.long_lived.is_empty() && rules::any(&config.long_lived, headers.get(), route) {
            host.add(metrics.long_lived, 1);
            member.long.update(|long| long + 1);
            return Counted::LongLived;
        }
        Counted::Plain
    }

    #[inline(never)] // streams that are only counted do not pay for its registers
    fn restore_scheme<H: Host>(&self, policy: &Policy, host: &H, headers: &mut Lazy<H>) {
        let told = self.plugin.told(policy, host);
        let told = Told::new(&told);
        let trusted = Plugin::trusts(policy, told.peer, host);
        let verdict = if !trusted && policy.ignores_untrusted() {
            crate::forwarded::Verdict::Untrusted
        } else {
            let named = told.headers(policy);
            let headers = match &named {
                Some(named) => Headers::named(named),
                None => headers.get(),
            };
            let finding = if trusted {
                policy.find(headers, || is_redirected(host))
            } else {
                Finding::Untrusted
            };
            let target = policy.target(finding, || connection_scheme(host));
            policy.edit(finding, target, headers, |edit| match edit {
                Edit::Set(name, value) => host.set_request_header(name, value),
                Edit::Remove(name) => host.remove_request_header(name),
            })
        };
        if let Some(counter) = self.plugin.metrics.verdict(verdict) {
            host.add(counter, 1);
        }
    }
}

/// The request's headers, which Envoy is asked for when somebody first looks.
struct Lazy<'h, H> {
    host: &'h H,
    map: Option<Vec<u8>>,
}

impl<H: Host> Lazy<'_, H> {
    fn get(&mut self) -> Headers<'_> {
        Headers::new(self.map.get_or_insert_with(|| self.host.request_headers()))
    }
}

/// Whether Envoy has followed a redirect of the upstream itself. The router counts redirects in
/// filter state, which no client can write.
fn is_redirected(host: &impl Host) -> bool {
    host.property("filter_state\0num_internal_redirects").is_some()
}

/// Only a TLS connection has a version of TLS, and none is empty: the SDK, for one, takes an empty
/// property for a missing one.
fn connection_scheme(host: &impl Host) -> Scheme {
    match host.property("connection\0tls_version") {
        Some(_) => Scheme::Https,
        None => Scheme::Http,
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use wasm_bindgen_test::wasm_bindgen_test;

    use super::Stream;
    use crate::fake::Fake;
    use crate::host::{Control as _, Host as _, Kind};
    use crate::plugin::Plugin;

    fn configured(host: &Fake, text: &str) -> Plugin {
        Plugin::new(host, crate::config::parse(text.as_bytes()).expect(text)).expect(text)
    }

    /// Runs one request through a policy for peers in 10.0.0.0/8, and says what became of it.
    fn verdict(host: &Fake, policy: &str) -> String {
        let text =
            format!(r#"{{"forwarded_proto": {{"trust": {{"peers": ["10.0.0.0/8"]}}, {policy}}}}}"#);
        let plugin = configured(host, &text);
        let with_headers_told = with_headers_told(host);
        Stream::new(Rc::new(plugin)).begin(host);
        let plugin = configured(&with_headers_told, &text);
        Stream::new(Rc::new(plugin)).begin(&with_headers_told);
        assert_eq!(counted(&with_headers_told), counted(host), "with headers told");
        assert_eq!(
            *with_headers_told.headers.borrow(),
            *host.headers.borrow(),
            "with headers told"
        );
        counted(host)
    }

    fn counted(host: &Fake) -> String {
        let verdicts = ["overridden", "kept", "conflicting", "silent", "untrusted"];
        let counted: Vec<_> =
            verdicts.into_iter().filter(|verdict| host.metric_of(verdict) > 0).collect();
        counted.join(" and ")
    }

    /// The same request behind a filter that tells the headers, too.
    fn with_headers_told(host: &Fake) -> Fake {
        let header = |name: &str| host.header(name).unwrap_or_default();
        let headers =
            ["x-forwarded-proto", "x-laststream-forwarded-proto", "x-forwarded-port"].map(header);
        let fake = Fake::default();
        fake.headers.replace(host.headers.borrow().clone());
        let mut properties = host.properties.borrow().clone();
        if let Some(peer) = properties.get_mut(PEER) {
            *peer = Box::leak([*peer, "\n", &headers.join("\n")].concat().into_boxed_str());
        }
        fake.properties.replace(properties);
        fake
    }

    const PEER: &str = "filter_state/laststream.direct_peer";

    fn from(peer: &'static str, headers: &[(&str, &str)]) -> Fake {
        let host = Fake::with_headers(headers);
        host.properties.borrow_mut().insert(PEER, peer);
        host
    }

    const GCP: &str = r#""presets": ["gcp"]"#;

    #[wasm_bindgen_test(unsupported = test)]
    fn a_refused_stream_is_counted_and_left_as_it_is() {
        let host = from(
            "10.1.2.3",
            &[("x-forwarded-proto", "http"), ("x-laststream-forwarded-proto", "https")],
        );
        host.clock.set(1_000);
        let closing = host.metric(Kind::Gauge, crate::metrics::CLOSING).expect("a gauge");
        host.set(closing, 2_000);
        let text =
            format!(r#"{{"forwarded_proto": {{"trust": {{"peers": ["10.0.0.0/8"]}}, {GCP}}}}}"#);
        let mut stream = Stream::new(Rc::new(configured(&host, &text)));
        assert!(!stream.begin(&host), "who has just begun to count minds the gate");
        assert_eq!(
            (host.metric_of("in_flight"), host.writes.get(), host.metric_of("overridden")),
            (1, 0, 0)
        );
        stream.end(&host);
        assert_eq!(host.metric_of("in_flight"), 0);
        host.clock.set(2_000);
        assert!(stream.begin(&host), "it runs out");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_trusted_peer_decides() {
        for (original, becomes, expected) in [
            ("https", "https", "overridden"),
            ("HTTPS ", "https", "overridden"),
            ("wss", "https", "overridden"),
            ("http", "http", "kept"),
            ("https, https", "https", "overridden"),
            ("http,https", "http", "conflicting"),
            ("gopher", "http", "conflicting"),
            ("", "http", "silent"),
            (" , ", "http", "silent"),
        ] {
            let host = from(
                "10.1.2.3",
                &[("x-forwarded-proto", "http"), ("x-laststream-forwarded-proto", original)],
            );
            assert_eq!(verdict(&host, GCP), expected, "{original}");
            assert_eq!(host.header("x-forwarded-proto").as_deref(), Some(becomes), "{original}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn an_untrusted_peer_never_becomes_https() {
        for peer in ["192.0.2.1", "", "10.1.2.3:80", "not an address"] {
            let host = from(
                peer,
                &[("x-forwarded-proto", "https"), ("x-laststream-forwarded-proto", "https")],
            );
            assert_eq!(verdict(&host, GCP), "untrusted", "{peer}");
            assert_eq!(host.header("x-forwarded-proto").as_deref(), Some("http"), "{peer}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn an_untrusted_peer_over_tls_is_https() {
        let host = from("192.0.2.1", &[("x-forwarded-proto", "http")]);
        host.properties.borrow_mut().insert("connection/tls_version", "TLSv1.3");
        assert_eq!(verdict(&host, GCP), "untrusted");
        assert_eq!(host.header("x-forwarded-proto").as_deref(), Some("https"));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn says_once_that_the_peer_is_missing() {
        let host = Fake::with_headers(&[("x-forwarded-proto", "https")]);
        let text =
            r#"{"forwarded_proto": {"trust": {"peers": ["0.0.0.0/0"]}, "presets": ["gcp"]}}"#;
        let plugin = Rc::new(configured(&host, text));
        for _ in 0..3 {
            Stream::new(Rc::clone(&plugin)).begin(&host);
        }
        assert_eq!(host.metric_of("untrusted"), 3);
        assert_eq!(
            host.lines.borrow().iter().filter(|line| line.contains("set_filter_state")).count(),
            1
        );
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn an_identity_is_enough() {
        for (uri, expected) in [
            ("spiffe://mesh/ns/edge/sa/gate", "overridden"),
            ("spiffe://mesh/ns/edge2/sa/gate", "untrusted"),
            ("spiffe://mesh/ns/a/sa/b", "overridden"),
            ("spiffe://mesh/ns/a/sa/bc", "untrusted"),
        ] {
            let host = from(
                "192.0.2.1",
                &[("x-forwarded-proto", "http"), ("x-laststream-forwarded-proto", "https")],
            );
            host.properties.borrow_mut().insert("connection/uri_san_peer_certificate", uri);
            let policy = r#""presets": ["gcp"], "fallback": "keep""#;
            let trust = r#"{"peers": ["10.0.0.0/8"], "identities": [{"prefix": "spiffe://mesh/ns/edge/"}, {"exact": "spiffe://mesh/ns/a/sa/b"}]}"#;
            let text = format!(r#"{{"forwarded_proto": {{"trust": {trust}, {policy}}}}}"#);
            let plugin = configured(&host, &text);
            Stream::new(Rc::new(plugin)).begin(&host);
            assert_eq!(host.metric_of(expected), 1, "{uri}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn several_sources_agree_or_the_first_decides() {
        let alb = r#""presets": ["aws_alb"]"#;
        let first = r#""presets": ["aws_alb"], "decision": "first""#;
        for (original, port, agreed, decided) in [
            ("https", "443", "overridden", "overridden"),
            ("https", "8443", "overridden", "overridden"),
            ("https", "80", "conflicting", "overridden"),
            ("http", "443", "conflicting", "kept"),
            ("", "443", "overridden", "overridden"),
            ("junk", "443", "conflicting", "conflicting"),
            ("https", "+443", "conflicting", "overridden"),
            ("https", "00443", "conflicting", "overridden"),
            ("", "0443", "conflicting", "conflicting"),
            ("", "443\r", "conflicting", "conflicting"),
            ("", "", "silent", "silent"),
        ] {
            let headers = [
                ("x-forwarded-proto", "http"),
                ("x-laststream-forwarded-proto", original),
                ("x-forwarded-port", port),
            ];
            assert_eq!(verdict(&from("10.0.0.1", &headers), alb), agreed, "{original} {port}");
            assert_eq!(verdict(&from("10.0.0.1", &headers), first), decided, "{original} {port}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn the_element_of_a_list_can_be_chosen() {
        for (element, lines, becomes) in [
            ("first", ["https, http", "http"], "https"),
            ("last", ["https, http", "https,"], "https"),
            ("last", ["https, https", "http"], "http"),
            ("agree", ["https, https", "https"], "https"),
            ("agree", ["https", "http"], "http"),
        ] {
            let headers =
                [("x-forwarded-proto", "http"), ("x-edge", lines[0]), ("x-edge", lines[1])];
            let host = from("10.0.0.1", &headers);
            verdict(
                &host,
                &format!(r#""sources": [{{"header": "X-Edge", "element": "{element}"}}]"#),
            );
            assert_eq!(
                host.header("x-forwarded-proto").as_deref(),
                Some(becomes),
                "{element} {lines:?}"
            );
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn every_form_of_header_is_read() {
        for (header, value, expected) in [
            ("forwarded", "for=1.2.3.4;proto=https", "overridden"),
            ("forwarded", "for=1.2.3.4", "silent"),
            ("forwarded", "proto=https, for=\"", "conflicting"),
            ("cf-visitor", r#"{"scheme":"https"}"#, "overridden"),
            ("cf-visitor", r#"{"scheme":"https""#, "conflicting"),
            ("cloudfront-forwarded-proto", "https", "overridden"),
            ("x-forwarded-ssl", "On", "overridden"),
            ("x-forwarded-ssl", "off", "kept"),
            ("front-end-https", "perhaps", "conflicting"),
            ("fastly-ssl", "1", "overridden"),
            ("x-arr-ssl", "2048|256|C=US, O=x", "overridden"),
            ("x-arr-ssl", "", "silent"),
            ("x-forwarded-scheme", "https", "overridden"),
            ("x-url-scheme", "https", "overridden"),
            ("x-forwarded-port", "443", "overridden"),
        ] {
            let host = from("10.0.0.1", &[("x-forwarded-proto", "http"), (header, value)]);
            assert_eq!(
                verdict(&host, &format!(r#""sources": [{{"header": "{header}"}}]"#)),
                expected,
                "{header}: {value}"
            );
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn nothing_is_written_that_is_already_there() {
        let all = r#""presets": ["gcp"], "write_scheme": true, "write_port": true, "strip": {"untrusted": true, "twins": true}"#;
        let headers = [
            (":scheme", "https"),
            ("x-forwarded-proto", "https"),
            ("x-laststream-forwarded-proto", "https"),
            ("x-forwarded-port", "443"),
            ("x_other", "1"),
        ];
        let host = from("10.0.0.1", &headers);
        assert_eq!(verdict(&host, all), "kept");
        assert_eq!(host.writes.get(), 0);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn scheme_and_port_follow_on_request() {
        let all = r#""presets": ["gcp"], "write_scheme": true, "write_port": true"#;
        for (port, written) in [
            ("80", "443"),
            ("", "443"),
            ("x", "443"),
            ("8443", "8443"),
            ("443", "443"),
            ("443,80", "443"),
        ] {
            let headers = [
                (":scheme", "http"),
                ("x-forwarded-proto", "http"),
                ("x-laststream-forwarded-proto", "https"),
                ("x-forwarded-port", port),
            ];
            let host = from("10.0.0.1", &headers);
            assert_eq!(verdict(&host, all), "overridden");
            assert_eq!(host.header(":scheme").as_deref(), Some("https"));
            assert_eq!(host.header("x-forwarded-port").as_deref(), Some(written), "{port}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn forgeable_headers_go() {
        let headers = [
            ("x-forwarded-proto", "http"),
            ("x-forwarded-port", "443"),
            ("x-forwarded-ssl", "on"),
            ("x_forwarded_proto", "https"),
            ("x-forwarded_proto", "https"),
            ("x_forwarded_for", "1.2.3.4"),
            ("x-edge", "https"),
            ("x_edge", "https"),
            ("front_end_https", "on"),
        ];
        let left = |peer: &'static str, strip: &str| {
            let host = from(peer, &headers);
            verdict(
                &host,
                &format!(
                    r#""sources": [{{"header": "x-edge"}}], "fallback": "keep", "strip": {strip}"#
                ),
            );
            let names: Vec<_> =
                host.headers.borrow().iter().map(|(name, _)| name.clone()).collect();
            names.join(" ")
        };
        let everything = "x-forwarded-proto x-forwarded-port x-forwarded-ssl x_forwarded_proto \
            x-forwarded_proto x_forwarded_for x-edge x_edge front_end_https";
        assert_eq!(left("192.0.2.1", "{}"), everything);
        assert_eq!(
            left("192.0.2.1", r#"{"untrusted": true}"#),
            "x-forwarded-proto x-forwarded-port x_forwarded_for"
        );
        assert_eq!(
            left("192.0.2.1", r#"{"twins": true}"#),
            "x-forwarded-proto x-forwarded-port x-forwarded-ssl x_forwarded_for x-edge"
        );
        assert_eq!(
            left("10.0.0.1", r#"{"untrusted": true}"#),
            "x-forwarded-port x-forwarded-ssl x_forwarded_proto x-forwarded_proto x_forwarded_for \
                x-edge x_edge front_end_https x-forwarded-proto"
        );
        assert_eq!(
            left("10.0.0.1", r#"{"twins": true}"#),
            "x-forwarded-port x-forwarded-ssl x_forwarded_for x-edge x-forwarded-proto"
        );
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn costs_no_more_reads_than_needed() {
        let untrusted = from("192.0.2.1", &[("x-forwarded-proto", "http")]);
        verdict(&untrusted, r#""presets": ["gcp"], "fallback": "keep""#);
        assert_eq!(untrusted.reads.get(), 1, "the peer");
        let trusted = from(
            "10.0.0.1",
            &[("x-forwarded-proto", "http"), ("x-laststream-forwarded-proto", "https")],
        );
        verdict(&trusted, r#""presets": ["gcp"]"#);
        assert_eq!(
            (trusted.reads.get(), trusted.writes.get()),
            (2, 1),
            "the peer, and all headers at once"
        );
        for (policy, reads) in [
            (GCP, 1),
            (r#""presets": ["cloudflare"]"#, 2),
            (r#""presets": ["gcp"], "strip": {"twins": true}"#, 2),
        ] {
            let told = with_headers_told(&from(
                "10.0.0.1",
                &[("x-forwarded-proto", "http"), ("x-laststream-forwarded-proto", "https")],
            ));
            let text = format!(
                r#"{{"forwarded_proto": {{"trust": {{"peers": ["10.0.0.0/8"]}}, {policy}}}}}"#
            );
            Stream::new(Rc::new(configured(&told, &text))).begin(&told);
            assert_eq!((told.reads.get(), told.writes.get()), (reads, 1), "{policy}");
        }
    }
}
