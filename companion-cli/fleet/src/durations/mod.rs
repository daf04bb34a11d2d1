//! How long requests last, for `size`: [`histogram`] computes, [`page`] reads the statistics of a
//! proxy, [`prometheus`] asks a Prometheus.

pub mod histogram;
pub mod page;
pub mod prometheus;

use histogram::Histogram;
use laststream_base::time_span::TimeSpan;

#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    pub source: String,
    pub durations: Histogram,
    /// Reasons why these numbers may be wrong.
    pub warnings: Vec<String>,
}

impl Measured {
    /// The time that all but this share of the streams in flight need, rounded up. If the buckets
    /// do not reach so far, it is the largest one, and a warning says so.
    pub fn longest_request(&mut self, share: f64) -> TimeSpan {
        let (largest, beyond) = self.durations.beyond();
        let longest = self.durations.outlasted_by(share).unwrap_or_else(|| {
            self.warnings.push(format!(
                "{:.1} % of the streams in flight last longer than {largest} s, the largest \
                 bucket: look at `laststream streams`, and end or exempt them in the policy",
                beyond * 100.0
            ));
            largest
        });
        rounded(longest)
    }
}

/// Rounds up to a number that operators would write.
fn rounded(seconds: f64) -> TimeSpan {
    let step = match seconds {
        ..30.0 => 1.0,
        ..300.0 => 5.0,
        ..3_600.0 => 30.0,
        _ => 300.0,
    };
    TimeSpan::seconds(((seconds / step).ceil() * step).clamp(1.0, 60_000.0) as u64)
}

/// Istio's and Envoy's histograms of durations. Both count in milliseconds.
const METRICS: [&str; 2] = ["istio_request_duration_milliseconds", "envoy_http_downstream_rq_time"];
/// The label with the connection manager, in Envoy's histograms.
const CONNECTION_MANAGER: &str = "envoy_http_conn_manager_prefix";
/// Connection managers of the proxy itself, beside laststream's.
const OWN: [&str; 7] = [
    "admin",
    "stats",
    "secure_stats",
    "secure_merged_stats",
    "agent",
    "eg-ready-http",
    "eg-stats-http",
];

/// The unit of a metric in seconds.
pub fn unit(metric: &str) -> Result<f64, String> {
    if METRICS.contains(&metric) || metric.ends_with("_milliseconds") {
        return Ok(0.001);
    }
    let has_seconds = metric.ends_with("_seconds");
    has_seconds.then_some(1.0).ok_or_else(|| {
        format!(
            "`{metric}` does not say its unit: name one that ends with `_seconds` or \
             `_milliseconds`"
        )
    })
}
