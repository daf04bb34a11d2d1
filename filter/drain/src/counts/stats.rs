//! Envoy's own counts, from its admin interface.

use crate::state::{DrainPolicy, Scope};

/// The path of a query. `with_totals` asks for the totals, too, for when only Envoy can show
/// whether a request began in between; gauges alone are few of many statistics. Envoy skips what
/// was never written before it builds the name, so `used_only` costs a third where there are many
/// clusters.
pub(crate) fn path(policy: &DrainPolicy, with_totals: bool, used_only: bool) -> String {
    let has_totals = with_totals || policy.counts_tcp;
    let parts = [
        (true, "/stats?filter=%5E%28http%5C..*%5C.downstream_%28rq_active"),
        (true, "%7Ccx_tx_bytes_buffered%7Ccx_http3_active"),
        (has_totals, "%7Crq_total%7Ccx_upgrades_active"),
        (true, "%29%7Chttp2%5C.pending_send_bytes%7Clistener_manager%5C.total_.*_draining"),
        (true, "%7Cserver%5C.concurrency%7Cwasmcustom%5C.laststream_gate_state"),
        (
            policy.counts_tcp,
            "%7Cconnection_limit%5C.laststream%28_gate%29%3F%5C.active_connections",
        ),
        (policy.counts_tcp, "%7Ctcp%5C..*%5C.downstream_cx_%28total%7Ctx_bytes_buffered%29"),
        (true, "%29$"),
        (!has_totals, "&type=Gauges"),
        (used_only, "&usedonly"),
    ];
    parts.into_iter().filter_map(|(is_asked, part)| is_asked.then_some(part)).collect()
}

/// Envoy sorts statistics, so these are the last lines of a whole answer of an Envoy with a gate.
/// An empty, foreign or truncated answer has none.
const MARKS: [&str; 2] = ["server.concurrency", "wasmcustom.laststream_gate_state"];

/// Connection managers of the proxy itself, in Istio, Envoy Gateway and laststream; the filter is
/// never in them.
const OWN: [&str; 8] = [
    "admin",
    "stats",
    "secure_stats",
    "secure_merged_stats",
    "agent",
    "laststream",
    "eg-ready-http",
    "eg-stats-http",
];

/// What a connection manager means to a gate.
enum Place {
    /// Its requests hold the drain.
    Here,
    /// Its requests do not hold the drain, by configuration; streams of the gate's scopes may be
    /// counted there.
    Ignored,
    /// Its requests are tunnels around requests of other connection managers. Only bytes that are
    /// not written yet hold the drain.
    Tunnels,
    /// Its requests do not hold the drain, because they are of the other direction.
    OtherDirection,
    /// Its requests do not hold the drain, and the filter counts none of them.
    Own,
}

/// The connection manager with this stat prefix, and whether its name shows a direction and the
/// gate is for one direction. Then each direction has connection managers of its own, even if Envoy
/// exports those of one direction only.
fn place(policy: &DrainPolicy, prefix: &str) -> (Place, bool) {
    let only = |scope| policy.scopes.iter().all(|other| *other == scope);
    // Istio's names begin like this.
    let (is_inbound, is_outbound) =
        (prefix.starts_with("inbound_"), prefix.starts_with("outbound_"));
    let is_other = only(Scope::Inbound) && is_outbound || only(Scope::Outbound) && is_inbound;
    let is_own = only(Scope::Inbound) && is_inbound || only(Scope::Outbound) && is_outbound;
    let is_in = |prefixes: &[String]| prefixes.iter().any(|other| other == prefix);
    let place = match is_in(&policy.ignore) {
        true if OWN.contains(&prefix) => Place::Own,
        true => Place::Ignored,
        false if is_in(&policy.tunnels) => Place::Tunnels,
        false if is_other => Place::OtherDirection,
        false => Place::Here,
    };
    (place, is_own || is_other)
}

/// Sums over connection managers; none if Envoy does not export the statistic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Stats {
    /// Requests in flight.
    pub(crate) active: Option<u64>,
    /// Requests ever begun.
    pub(crate) total: Option<u64>,
    /// Bytes that wait to be written to clients.
    pub(crate) buffered: Option<u64>,
    /// Requests in flight in connection managers of the other direction.
    pub(crate) others: Option<u64>,
    /// Requests in flight in connection managers that the operator ignores.
    pub(crate) ignored: Option<u64>,
    /// Tunnels in flight.
    pub(crate) tunnels: Option<u64>,
    /// Bytes that wait in HTTP/2 streams of clients for their windows.
    pub(crate) pending: Option<u64>,
    /// HTTP/3 connections.
    pub(crate) http3: Option<u64>,
    /// Upgraded requests in flight, such as WebSockets.
    pub(crate) upgrades: Option<u64>,
    /// TCP connections.
    pub(crate) connections: Option<u64>,
    /// TCP connections ever begun.
    pub(crate) connections_total: Option<u64>,
    /// Whether Envoy exports the number of connections of the gate's own listener, which has the
    /// same filter: then it exports that of the others, too, as far as there are any.
    pub(crate) shows_connections: bool,
    /// Whether each direction is known to have connection managers of its own.
    pub(crate) splits_directions: bool,
    /// Listeners and filter chains that were replaced and still have connections; the filter may
    /// not be in them.
    pub(crate) draining: Option<u64>,
    /// Envoy's number of workers.
    pub(crate) workers: Option<u64>,
}

impl Stats {
    /// Reads `name: value` lines; none if this is not a whole answer of Envoy. `unwritten` is what
    /// a statistic counts that the answer does not have.
    pub(crate) fn read(text: &str, policy: &DrainPolicy, unwritten: Self) -> Option<Self> {
        let mut stats = unwritten;
        let mut is_whole = false;
        for (name, value) in lines(text) {
            if let Ok(value) = value.trim_ascii().parse() {
                is_whole |= MARKS.contains(&name);
                stats.add(name, value, policy);
            }
        }
        if policy.counts_tcp && unwritten == Self::default() {
            stats.add_managers_that_are_missing(text, policy);
        }
        is_whole.then_some(stats)
    }

    /// The same statistics, none of them written yet.
    pub(crate) fn unwritten(self) -> Self {
        let zero = |count: Option<u64>| count.map(|_| 0);
        Self {
            active: zero(self.active),
            total: zero(self.total),
            buffered: zero(self.buffered),
            others: zero(self.others),
            ignored: zero(self.ignored),
            tunnels: zero(self.tunnels),
            pending: zero(self.pending),
            http3: zero(self.http3),
            upgrades: zero(self.upgrades),
            connections: zero(self.connections),
            connections_total: zero(self.connections_total),
            shows_connections: self.shows_connections,
            splits_directions: self.splits_directions,
            draining: zero(self.draining),
            workers: self.workers,
        }
    }

    /// What these statistics say to a gate.
    pub(crate) fn judged(mut self, policy: &DrainPolicy) -> Self {
        if !policy.tunnels.is_empty() {
            self.add_bytes_in_tunnels();
        }
        // Without a filter, these are the long-lived streams that are known.
        if policy.by_envoy && policy.exempts_long_lived {
            let upgrades = self.upgrades.unwrap_or_default();
            self.active = self.active.map(|active| active.saturating_sub(upgrades));
        }
        // Envoy does not export the bytes that wait in HTTP/3 streams, which have ended by both
        // counts when QUIC has taken their last byte. Where it does not export the number of
        // connections either, there may be some.
        if self.http3 != Some(0) && self.buffered == Some(0) {
            self.buffered = None;
        }
        // Without the total, a connection could begin and end between two answers.
        self.connections = match self.connections {
            None => self.shows_connections.then_some(0),
            connections => connections.filter(|_| self.connections_total.is_some()),
        };
        self
    }

    /// A proxy of TCP alone has no connection manager but those of the proxy itself, and so no
    /// requests, as far as Envoy exports that of those.
    fn add_managers_that_are_missing(&mut self, text: &str, policy: &DrainPolicy) {
        let of_managers = || lines(text).filter_map(|(name, _)| of_manager(name));
        let is_own = |(prefix, _)| matches!(place(policy, prefix), (Place::Own, _));
        if of_managers().all(is_own) {
            for (_, what) in of_managers() {
                self.add_of_manager(Place::Here, what, 0);
            }
        }
    }

    /// A response that has ended may still wait in the tunnel around its connection, where only the
    /// HTTP/2 codec knows its bytes. That statistic exists from the first HTTP/2 connection on: if
    /// there are tunnels, and it is missing, the number of bytes is unknown. Zero bytes in tunnels
    /// do not replace the bytes of connections, if Envoy does not export those.
    fn add_bytes_in_tunnels(&mut self) {
        match self.pending {
            Some(0) => {}
            Some(bytes) => add_to(&mut self.buffered, bytes),
            None if self.tunnels > Some(0) => self.buffered = None,
            None => {}
        }
    }

    fn add(&mut self, name: &str, value: u64, policy: &DrainPolicy) {
        match name {
            "server.concurrency" => self.workers = Some(value),
            "http2.pending_send_bytes" => self.pending = Some(value),
            _ if name.starts_with("listener_manager.total_") && name.ends_with("_draining") => {
                add_to(&mut self.draining, value)
            }
            _ => {
                if let Some((prefix, what)) = of_manager(name) {
                    let (place, tells_direction) = place(policy, prefix);
                    self.splits_directions |= tells_direction;
                    self.add_of_manager(place, what, value);
                } else if policy.counts_tcp {
                    self.add_of_tcp(name, value);
                }
            }
        }
    }

    fn add_of_tcp(&mut self, name: &str, value: u64) {
        match name.rsplit_once('.') {
            Some(("connection_limit.laststream", "active_connections")) => {
                add_to(&mut self.connections, value);
            }
            Some(("connection_limit.laststream_gate", "active_connections")) => {
                self.shows_connections = true;
            }
            Some((prefix, "downstream_cx_total")) if prefix.starts_with("tcp.") => {
                add_to(&mut self.connections_total, value);
            }
            Some((prefix, "downstream_cx_tx_bytes_buffered")) if prefix.starts_with("tcp.") => {
                add_to(&mut self.buffered, value);
            }
            _ => {}
        }
    }

    fn add_of_manager(&mut self, place: Place, what: &str, value: u64) {
        let is_here = matches!(place, Place::Here | Place::Tunnels);
        let sum = match (what, place) {
            ("downstream_rq_active", Place::Here) => &mut self.active,
            ("downstream_rq_active", Place::Tunnels) => &mut self.tunnels,
            ("downstream_rq_active", Place::OtherDirection) => &mut self.others,
            ("downstream_rq_active", Place::Ignored) => &mut self.ignored,
            ("downstream_rq_total", Place::Here) => &mut self.total,
            ("downstream_cx_tx_bytes_buffered", _) if is_here => &mut self.buffered,
            ("downstream_cx_http3_active", _) if is_here => &mut self.http3,
            ("downstream_cx_upgrades_active", Place::Here) => &mut self.upgrades,
            _ => return,
        };
        add_to(sum, value);
    }
}

fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.rsplit_once(':'))
}

/// The prefix of a connection manager, and what its statistic is.
fn of_manager(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("http.")?.rsplit_once('.')
}

fn add_to(sum: &mut Option<u64>, value: u64) {
    *sum = Some(sum.unwrap_or(0).saturating_add(value));
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{DrainPolicy, OWN, Scope, Stats};

    fn policy(scopes: &[Scope], ignore: &[&str], tunnels: &[&str]) -> DrainPolicy {
        let [ignore, tunnels] = [ignore, tunnels]
            .map(|prefixes| prefixes.iter().map(|&prefix| prefix.into()).collect());
        DrainPolicy { scopes: scopes.into(), ignore, tunnels, ..DrainPolicy::default() }
    }

    /// Parses a whole answer of Envoy.
    fn whole(text: &str, policy: &DrainPolicy) -> Stats {
        let text = format!("{text}\nwasmcustom.laststream_gate_state: 1");
        let stats = Stats::read(&text, policy, Stats::default()).expect("a whole answer");
        stats.judged(policy)
    }

    const TEXT: &str = "\
http.a.downstream_rq_active: 2
http.b.c.downstream_rq_active: 3
http.admin.downstream_rq_active: 1
http.outbound_0.0.0.0_80.downstream_rq_active: 7
http.inbound_0.0.0.0_80.downstream_rq_active: 5
http.a.downstream_rq_total: 9
server.concurrency: 4
listener_manager.total_listeners_draining: 1
listener_manager.total_filter_chains_draining: 2
nonsense
http.a.downstream_rq_time: P0(1,2)
";

    fn read(scopes: &[Scope], ignore: &[&str]) -> (Option<u64>, u64, bool) {
        let stats = whole(TEXT, &policy(scopes, ignore, &[]));
        assert_eq!((stats.draining, stats.workers, stats.buffered), (Some(3), Some(4), None));
        let [active, others, ignored] =
            [stats.active, stats.others, stats.ignored].map(Option::unwrap_or_default);
        assert_eq!(active + others + ignored, 17);
        (stats.active, ignored, stats.splits_directions)
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn sums_over_the_connection_managers_that_matter() {
        assert_eq!(read(&[Scope::Gateway], &["admin"]), (Some(17), 0, false));
        assert_eq!(read(&[Scope::Inbound, Scope::Outbound], &["admin"]), (Some(17), 0, false));
        assert_eq!(
            read(&[Scope::Inbound], &["admin"]),
            (Some(10), 0, true),
            "the other direction does not hold"
        );
        assert_eq!(read(&[Scope::Outbound], &["admin"]), (Some(12), 0, true));
        assert_eq!(
            read(&[Scope::Gateway], &["admin", "b.c"]),
            (Some(14), 3, false),
            "an ignored connection manager may have counted streams"
        );
    }

    /// A probe of the proxy itself is not a stream for which a drain waits.
    #[wasm_bindgen_test(unsupported = test)]
    fn the_proxys_own_connection_managers_hold_no_counted_streams() {
        for own in OWN.iter().filter(|own| **own != "admin") {
            let text =
                format!("http.{own}.downstream_rq_active: 1\nhttp.a.downstream_rq_active: 2");
            let stats = whole(&text, &policy(&[Scope::Gateway], &["admin", own], &[]));
            assert_eq!((stats.active, stats.ignored), (Some(2), None), "{own}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_statistic_that_is_missing_is_not_zero() {
        let policy = policy(&[Scope::Gateway], &["admin"], &[]);
        assert_eq!(whole("http.admin.downstream_rq_active: 1", &policy), Stats::default());
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn only_a_whole_answer_of_envoy_is_one() {
        let policy = policy(&[Scope::Gateway], &[], &[]);
        let half = TEXT.split("server.").next().expect("the first half");
        for text in ["", "<html>\n<body>OK: 7</body>", "server.concurrency: x", half] {
            assert_eq!(Stats::read(text, &policy, Stats::default()), None, "{text}");
        }
        for mark in super::MARKS {
            let text = format!("{mark}: 0");
            assert!(Stats::read(&text, &policy, Stats::default()).is_some(), "{mark}");
        }
    }

    /// Envoy leaves out of its answer what was never written.
    #[wasm_bindgen_test(unsupported = test)]
    fn what_was_never_written_is_zero_where_envoy_exports_it() {
        let policy = policy(&[Scope::Gateway], &[], &[]);
        let all = "http.a.downstream_rq_active: 2\nhttp.a.downstream_rq_total: 7\n\
                   http.a.downstream_cx_http3_active: 0\nserver.concurrency: 4";
        let read = |text: &str, unwritten| {
            Stats::read(text, &policy, unwritten).expect("a whole answer").judged(&policy)
        };
        let whole = read(all, Stats::default());
        let used = read("server.concurrency: 4", whole.unwritten());
        assert_eq!((used.active, used.total, used.http3), (Some(0), Some(0), Some(0)));
        assert_eq!((used.buffered, used.workers), (None, Some(4)), "Envoy does not export it");
        let text = "http.b.downstream_rq_active: 1\nserver.concurrency: 4";
        assert_eq!(read(text, whole.unwritten()).active, Some(1), "another connection manager");
    }

    /// Streams of the other direction are then not in Envoy's count, so they do not explain any
    /// request in it.
    #[wasm_bindgen_test(unsupported = test)]
    fn directions_are_split_if_only_one_is_exported() {
        let text = "http.inbound_0.0.0.0_80.downstream_rq_active: 1";
        let splits = |scopes: &[Scope]| whole(text, &policy(scopes, &[], &[])).splits_directions;
        assert!(splits(&[Scope::Inbound]) && splits(&[Scope::Outbound]));
        assert!(!splits(&[Scope::Inbound, Scope::Outbound]) && !splits(&[Scope::Gateway]));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn bytes_that_wait_in_http3_are_unknown() {
        let read = |http3: &str, buffered: u64| {
            let text = format!("{http3}\nhttp.a.downstream_cx_tx_bytes_buffered: {buffered}");
            whole(&text, &policy(&[Scope::Gateway], &[], &[])).buffered
        };
        let [none, two] = [0, 2].map(|http3| format!("http.a.downstream_cx_http3_active: {http3}"));
        assert_eq!((read(&none, 0), read(&two, 0), read(&two, 7)), (Some(0), None, Some(7)));
        assert_eq!((read("", 0), read("", 7)), (None, Some(7)), "Envoy does not export it");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn upgraded_requests_are_exempt_only_without_a_filter_that_knows_them() {
        let text = "http.a.downstream_rq_active: 3\nhttp.a.downstream_cx_upgrades_active: 2\n\
                    http.ignored.downstream_cx_upgrades_active: 9";
        for (by_envoy, exempts_long_lived, active) in
            [(true, true, 1), (true, false, 3), (false, true, 3)]
        {
            let policy = policy(&[Scope::Gateway], &["ignored"], &[]);
            let policy = DrainPolicy { by_envoy, exempts_long_lived, ..policy };
            assert_eq!(whole(text, &policy).active, Some(active));
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn tcp_connections_are_known_if_the_gates_own_are() {
        let own = "connection_limit.laststream_gate.active_connections: 3\n";
        let others = "connection_limit.laststream.active_connections: 2\n\
                      tcp.db.downstream_cx_total: 5\ntcp.db.downstream_cx_tx_bytes_buffered: 7\n\
                      http.a.downstream_cx_tx_bytes_buffered: 0\n\
                      http.a.downstream_cx_http3_active: 0\n";
        let read = |text: &str, counts_tcp| {
            let policy = DrainPolicy { counts_tcp, ..policy(&[Scope::Gateway], &[], &[]) };
            let stats = whole(text, &policy);
            (stats.connections, stats.connections_total, stats.buffered)
        };
        assert_eq!(read(&[own, others].concat(), true), (Some(2), Some(5), Some(7)));
        let active = others.lines().next().expect("the gauge");
        assert_eq!(read(active, true), (None, None, None), "Envoy does not export their total");
        assert_eq!(read(own, true), (Some(0), None, None), "no listener has the filter now");
        assert_eq!(read(others, false), (None, None, Some(0)), "they do not hold");
        let tcp =
            DrainPolicy { counts_tcp: true, ..policy(&[Scope::Gateway], &["laststream"], &[]) };
        let alone =
            "http.laststream.downstream_rq_active: 3\nhttp.laststream.downstream_rq_total: 9";
        let stats = whole(alone, &tcp);
        assert_eq!((stats.active, stats.total), (Some(0), Some(0)), "a proxy of TCP alone");
        let stats = whole(&format!("{alone}\nhttp.a.downstream_rq_active: 0"), &tcp);
        assert_eq!((stats.active, stats.total), (Some(0), None), "Envoy does not export its total");
        assert_eq!(read("", true), (None, None, None), "Envoy does not export them");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_tunnel_holds_the_drain_only_by_its_unwritten_bytes() {
        let read = |text: &str, tunnels: &[&str]| {
            let stats = whole(text, &policy(&[Scope::Inbound], &[], tunnels));
            (stats.active, stats.ignored.unwrap_or_default(), stats.buffered)
        };
        let tunnels = ["connect_terminate"];
        let requests = "http.inbound_80.downstream_cx_http3_active: 0\n\
                        http.inbound_80.downstream_rq_active: 1\n\
                        http.inbound_80.downstream_cx_tx_bytes_buffered: 0\n\
                        http.connect_terminate.downstream_rq_active: 9\n";
        let written = "http.connect_terminate.downstream_cx_tx_bytes_buffered: 20\n";
        let pending = "http2.pending_send_bytes: 300\n";
        let all = [requests, written, pending].concat();
        assert_eq!(read(&all, &tunnels), (Some(1), 0, Some(320)));
        assert_eq!(
            read(&all, &[]),
            (Some(10), 0, Some(20)),
            "elsewhere a stream is in flight until its bytes are written"
        );
        assert_eq!(
            read(&[requests, written].concat(), &tunnels),
            (Some(1), 0, None),
            "tunnels whose bytes Envoy does not export"
        );
        let unexported = "http.inbound_80.downstream_rq_active: 1\nhttp2.pending_send_bytes: 0\n";
        assert_eq!(read(unexported, &tunnels), (Some(1), 0, None), "bytes of connections");
        let idle = "http.connect_terminate.downstream_cx_http3_active: 0\n\
                    http.connect_terminate.downstream_cx_tx_bytes_buffered: 0\n";
        assert_eq!(read(idle, &tunnels), (None, 0, Some(0)), "there was no tunnel yet");
    }
}
