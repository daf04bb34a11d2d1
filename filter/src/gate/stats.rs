//! What Envoy itself counts, from its admin interface: the second source.

use alloc::string::String;

use crate::words::{cut_last, number, words};

/// The query for exactly the statistics that are read here.
pub(crate) const PATH: &str = concat!(
    "/stats?filter=%5E%28http%5C..*%5C.downstream_%28rq_active%7Crq_total%7Ccx_tx_bytes_buffered%29",
    "%7Clistener_manager%5C.total_.*_draining%7Cserver%5C.concurrency%29$"
);

/// Sums over the connection managers that matter; none where Envoy does not keep the statistic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    pub(crate) active: Option<u64>,
    pub(crate) total: Option<u64>,
    pub(crate) buffered: Option<u64>,
    /// Listeners and filter chains that were replaced, and still have time for their connections: there the module may not be.
    pub(crate) draining: Option<u64>,
    /// Workers.
    pub(crate) workers: Option<u64>,
}

impl Stats {
    /// Reads `name: value` lines. Connection managers of an ignored stat prefix are left out.
    pub(crate) fn read(text: &str, ignore: &[String]) -> Self {
        let mut stats = Self::default();
        for (name, value) in words(text, b'\n').filter_map(|line| cut_last(line, b':')) {
            let Some(value) = number(value.trim_ascii().as_bytes()) else { continue };
            if name == "server.concurrency" {
                stats.workers = Some(value);
            }
            if name.starts_with("listener_manager.total_") && name.ends_with("_draining") {
                stats.draining = Some(stats.draining.unwrap_or(0).saturating_add(value));
            }
            let Some((prefix, what)) = name.strip_prefix("http.").and_then(|name| cut_last(name, b'.')) else { continue };
            if ignore.iter().any(|ignored| ignored == prefix) {
                continue;
            }
            let sum = match what {
                "downstream_rq_active" => &mut stats.active,
                "downstream_rq_total" => &mut stats.total,
                "downstream_cx_tx_bytes_buffered" => &mut stats.buffered,
                _ => continue,
            };
            *sum = Some(sum.unwrap_or(0).saturating_add(value));
        }
        stats
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::Stats;

    #[wasm_bindgen_test(unsupported = test)]
    fn sums_what_matters() {
        let text = "http.a.downstream_rq_active: 2\nhttp.b.c.downstream_rq_active: 3\nhttp.admin.downstream_rq_active: 1\nhttp.a.downstream_rq_total: 9\nserver.concurrency: 4\nlistener_manager.total_listeners_draining: 1\nlistener_manager.total_filter_chains_draining: 2\nnonsense\nhttp.a.downstream_rq_time: P0(1,2)\n";
        let stats = Stats::read(text, &["admin".into()]);
        assert_eq!(stats, Stats { active: Some(5), total: Some(9), buffered: None, draining: Some(3), workers: Some(4) });
        assert_eq!(Stats::read("http.admin.downstream_rq_active: 1", &["admin".into()]), Stats::default());
    }
}
