//! What Envoy itself counts, from its admin interface: the second source.

use crate::config::wire::Scope;

/// Gauges alone: a few of many statistics. Enough where the filter knows itself whether a stream
/// began in between.
pub(crate) const GAUGES: &str = concat!(
    "/stats?type=Gauges&filter=%5E%28http%5C..*%5C.downstream_%28rq_active%7Ccx_tx_bytes_buffered%29",
    "%7Clistener_manager%5C.total_.*_draining%7Cserver%5C.%28concurrency%7Ctotal_connections%29%29$"
);

/// And how many requests there have ever been, where only Envoy can tell what began in between.
pub(crate) const ALL: &str = concat!(
    "/stats?filter=%5E%28http%5C..*%5C.downstream_%28rq_active%7Crq_total%7Ccx_tx_bytes_buffered%29",
    "%7Clistener_manager%5C.total_.*_draining%7Cserver%5C.%28concurrency%7Ctotal_connections%29%29$"
);

/// Connection managers of the proxy itself, in which no stream is ever counted.
const OWN: [&str; 4] = ["admin", "stats", "agent", "laststream"];

/// Which connection managers a gate answers for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Managers<'p> {
    pub(crate) scopes: &'p [Scope],
    /// Stat prefixes whose requests hold no drain.
    pub(crate) ignore: &'p [String],
}

enum Place {
    /// Its requests hold the drain.
    Here,
    /// They do not, by the operator's word; streams of the gate's scopes may be counted there.
    Ignored,
    /// They do not: they are of the other direction.
    OtherDirection,
    /// They do not, and none is counted.
    Nowhere,
}

impl Managers<'_> {
    fn place(&self, prefix: &str) -> Place {
        if self.ignore.iter().any(|ignored| ignored == prefix) {
            return if OWN.contains(&prefix) { Place::Nowhere } else { Place::Ignored };
        }
        let only = |scope| self.scopes.iter().all(|other| *other == scope);
        let other_direction = only(Scope::Inbound) && prefix.starts_with("outbound_")
            || only(Scope::Outbound) && prefix.starts_with("inbound_");
        if other_direction { Place::OtherDirection } else { Place::Here }
    }
}

/// Sums over connection managers; none where Envoy does not export the statistic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Stats {
    pub(crate) active: Option<u64>,
    pub(crate) total: Option<u64>,
    pub(crate) buffered: Option<u64>,
    /// Requests in flight in connection managers that the operator ignores.
    pub(crate) ignored: u64,
    /// Whether there are connection managers that are known to be of the other direction.
    pub(crate) splits_directions: bool,
    /// Listeners and filter chains that were replaced, and still have time for their connections:
    /// there the module may not be.
    pub(crate) draining: Option<u64>,
    /// Workers.
    pub(crate) workers: Option<u64>,
    /// Connections of clients, to the gate too.
    pub(crate) connections: Option<u64>,
}

impl Stats {
    /// Reads `name: value` lines.
    pub(crate) fn read(text: &str, managers: Managers<'_>) -> Self {
        let mut stats = Self::default();
        for (name, value) in text.lines().filter_map(|line| line.rsplit_once(':')) {
            if let Ok(value) = value.trim_ascii().parse() {
                stats.take(name, value, managers);
            }
        }
        stats
    }

    fn take(&mut self, name: &str, value: u64, managers: Managers<'_>) {
        match name {
            "server.concurrency" => self.workers = Some(value),
            "server.total_connections" => self.connections = Some(value),
            _ if name.starts_with("listener_manager.total_") && name.ends_with("_draining") => {
                add(&mut self.draining, value)
            }
            _ => {
                if let Some((prefix, what)) =
                    name.strip_prefix("http.").and_then(|name| name.rsplit_once('.'))
                {
                    self.take_manager(managers.place(prefix), what, value);
                }
            }
        }
    }

    fn take_manager(&mut self, place: Place, what: &str, value: u64) {
        match (place, what) {
            (Place::Here, "downstream_rq_active") => add(&mut self.active, value),
            (Place::Here, "downstream_rq_total") => add(&mut self.total, value),
            (Place::Here, "downstream_cx_tx_bytes_buffered") => add(&mut self.buffered, value),
            (Place::Ignored, "downstream_rq_active") => {
                self.ignored = self.ignored.saturating_add(value)
            }
            (Place::OtherDirection, _) => self.splits_directions = true,
            _ => {}
        }
    }
}

fn add(sum: &mut Option<u64>, value: u64) {
    *sum = Some(sum.unwrap_or(0).saturating_add(value));
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Managers, Scope, Stats};

    const TEXT: &str = "http.a.downstream_rq_active: 2\nhttp.b.c.downstream_rq_active: \
        3\nhttp.admin.downstream_rq_active: 1\n\
        http.outbound_0.0.0.0_80.downstream_rq_active: \
        7\nhttp.inbound_0.0.0.0_80.downstream_rq_active: 5\nhttp.a.downstream_rq_total: 9\n\
        server.concurrency: 4\nserver.total_connections: \
        6\nlistener_manager.total_listeners_draining: 1\n\
        listener_manager.total_filter_chains_draining: 2\nnonsense\nhttp.a.downstream_rq_time: \
        P0(1,2)\n";

    fn read(scopes: &[Scope], ignore: &[&str]) -> (Option<u64>, u64, bool) {
        let ignore: Vec<String> = ignore.iter().map(|prefix| (*prefix).into()).collect();
        let stats = Stats::read(TEXT, Managers { scopes, ignore: &ignore });
        assert_eq!(
            (stats.draining, stats.workers, stats.connections, stats.buffered),
            (Some(3), Some(4), Some(6), None)
        );
        (stats.active, stats.ignored, stats.splits_directions)
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn sums_what_the_gate_answers_for() {
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
            "one that is ignored may have counted streams"
        );
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn what_is_not_exported_is_no_zero() {
        let managers = Managers { scopes: &[Scope::Gateway], ignore: &["admin".into()] };
        assert_eq!(Stats::read("http.admin.downstream_rq_active: 1", managers), Stats::default());
    }
}
