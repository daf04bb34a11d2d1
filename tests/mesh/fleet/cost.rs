//! The cost of a run: memory, and requests to the API server.

use std::fs;

use crate::cluster::Cluster;
use kit::prelude::*;

/// The peak memory of a process; `None` after its end.
pub(super) fn peak_kb(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Requests, most of them for pods, as the API server has counted them.
pub(super) struct Requests {
    pub(super) lists: u64,
    /// Lists of all kinds.
    pub(super) all_lists: u64,
    pub(super) proxied: u64,
    pub(super) forwards: u64,
    /// Patches of a pod's status.
    pub(super) statuses: u64,
}

impl Requests {
    pub(super) async fn of(cluster: &Cluster) -> Outcome<Self> {
        let page = cluster.run(&["get", "--raw", "/metrics"]).await?;
        let sum = |labels: &[(&str, &str)]| -> u64 {
            let labels: Vec<String> =
                labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
            page.lines()
                .filter(|line| line.starts_with("apiserver_request_total{"))
                .filter(|line| labels.iter().all(|label| line.contains(label)))
                .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
                .map(|value| value as u64)
                .sum()
        };
        let pods = ("resource", "pods");
        Ok(Self {
            lists: sum(&[pods, ("subresource", ""), ("verb", "LIST")]),
            all_lists: sum(&[("verb", "LIST")]),
            proxied: sum(&[pods, ("subresource", "proxy")]),
            forwards: sum(&[pods, ("subresource", "portforward")]),
            statuses: sum(&[pods, ("subresource", "status"), ("verb", "PATCH")]),
        })
    }
}
