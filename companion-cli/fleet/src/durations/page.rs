//! The durations on a proxy's page of statistics, in Prometheus' text form.

use super::histogram::Histogram;
use super::{CONNECTION_MANAGER, METRICS, OWN, unit};

/// The durations in pages of statistics, summed over all series. `None` without a stream.
pub fn durations(pages: &[String], metric: Option<&str>) -> Option<Histogram> {
    let lines = pages.iter().flat_map(|page| page.lines()).filter(|line| !line.starts_with('#'));
    Histogram::new(lines.filter_map(|line| bucket(line, metric)).collect())
}

/// Whether requests of this connection manager are to the proxy itself. Gates ignore them, because
/// a held stop hook or a scrape is not a stream.
fn is_own(prefix: &str) -> bool {
    OWN.contains(&prefix) || prefix.starts_with("laststream")
}

/// Parses a line such as `NAME_bucket{le="5"} 17`.
fn bucket(line: &str, metric: Option<&str>) -> Option<(f64, f64)> {
    let (name, rest) = line.split_once("_bucket{")?;
    let is_wanted = metric.map_or_else(|| METRICS.contains(&name), |metric| metric == name);
    let unit = unit(name).ok().filter(|_| is_wanted)?;
    let (bound, values) = bound_and_values(rest)?;
    let bound: f64 = bound.parse().ok()?;
    // After the value there may be a time, and an exemplar with values of its own.
    let count: f64 = values.split_whitespace().next()?.parse().ok()?;
    Some((bound * unit, count))
}

/// The value of the label `le`, and the text after the labels; `None` for requests to the proxy
/// itself. Other labels may end with `le`, and values may hold any character.
fn bound_and_values(labels: &str) -> Option<(&str, &str)> {
    let (mut rest, mut bound) = (labels, None);
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(values) = rest.strip_prefix('}') {
            return Some((bound?, values));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let mut is_escaped = false;
        let (value, after) = quoted.split_once(|character| {
            let ends = character == '"' && !is_escaped;
            is_escaped = character == '\\' && !is_escaped;
            ends
        })?;
        match name.trim() {
            "le" => bound = Some(value),
            CONNECTION_MANAGER if is_own(value) => return None,
            _ => {}
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::{bucket, durations};
    use crate::durations::histogram::Histogram;

    #[test]
    fn histograms_of_several_series_are_summed() {
        let one = "# TYPE x histogram\n\
            istio_request_duration_milliseconds_bucket{pod=\"a\",le=\"500\"} 8\n\
            istio_request_duration_milliseconds_bucket{pod=\"a\",le=\"+Inf\"} 10 1700000000\n\
            other_bucket{le=\"1\"} 99\n";
        let other = "istio_request_duration_milliseconds_bucket{le=\"500\",pod=\"b\"} 2\n\
            istio_request_duration_milliseconds_bucket{le=\"+Inf\",pod=\"b\"} 10\n";
        let sum = Histogram::new(vec![(0.5, 10.0), (f64::INFINITY, 20.0)]);
        assert_eq!(durations(&[one.to_owned(), other.to_owned()], None), sum);
        assert_eq!(durations(&["nothing\n".to_owned()], None), None);
    }

    #[test]
    fn a_bound_is_the_label_le_and_a_count_the_first_value() {
        let line = |labels: &str, values: &str| {
            bucket(
                &format!("istio_request_duration_milliseconds_bucket{{{labels}}} {values}"),
                None,
            )
        };
        let expected = Some((0.5, 8.0));
        for labels in [
            r#"le="500""#,
            r#"role="a",scale="9",le="500""#,
            r#"profile="7", le="500","#,
            r#"path="a\"le=\"1\\",le="500",of="}""#,
        ] {
            assert_eq!(line(labels, "8"), expected, "{labels}");
        }
        assert_eq!(line(r#"le="500""#, r#"8 1700000000 # {trace_id="x"} 0.43 17"#), expected);
        let own = r#"envoy_http_conn_manager_prefix="laststream_gate",le="500""#;
        for labels in [r#"scale="500""#, r#"le="500"#, "le=500", "", own] {
            assert_eq!(line(labels, "8"), None, "{labels}");
        }
    }
}
