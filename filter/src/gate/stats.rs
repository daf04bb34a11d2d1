//! What Envoy itself counts, from its admin interface: the second source.

/// The query for exactly the statistics that are read here.
pub(crate) const PATH: &str =
    "/stats?filter=%5E%28http%5C..*%5C.downstream_%28rq_active%7Crq_total%7Ccx_tx_bytes_buffered%29%7Cserver%5C.uptime%29$";

/// Sums over the connection managers that matter; none where Envoy does not keep the statistic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    pub(crate) active: Option<u64>,
    pub(crate) total: Option<u64>,
    pub(crate) buffered: Option<u64>,
    /// Seconds that Envoy has been running.
    pub(crate) uptime: Option<u64>,
}

impl Stats {
    /// Reads `name: value` lines. Connection managers of an ignored stat prefix are left out.
    pub(crate) fn read(text: &str, ignore: &[String]) -> Self {
        let mut stats = Self::default();
        for (name, value) in text.lines().filter_map(|line| line.rsplit_once(": ")) {
            let Ok(value) = value.trim().parse::<u64>() else { continue };
            if name == "server.uptime" {
                stats.uptime = Some(value);
            }
            let Some((prefix, what)) = name.strip_prefix("http.").and_then(|name| name.rsplit_once(".downstream_")) else { continue };
            if ignore.iter().any(|ignored| ignored == prefix) {
                continue;
            }
            let sum = match what {
                "rq_active" => &mut stats.active,
                "rq_total" => &mut stats.total,
                "cx_tx_bytes_buffered" => &mut stats.buffered,
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
        let text = "http.a.downstream_rq_active: 2\nhttp.b.c.downstream_rq_active: 3\nhttp.admin.downstream_rq_active: 1\nhttp.a.downstream_rq_total: 9\nserver.uptime: 17\nnonsense\nhttp.a.downstream_rq_time: P0(1,2)\n";
        let stats = Stats::read(text, &["admin".into()]);
        assert_eq!(stats, Stats { active: Some(5), total: Some(9), buffered: None, uptime: Some(17) });
        assert_eq!(Stats::read("http.admin.downstream_rq_active: 1", &["admin".into()]), Stats::default());
    }
}
