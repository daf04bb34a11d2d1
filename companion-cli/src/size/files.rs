//! Streams from files: answers of `GET /streams`, and histograms in Prometheus' text form.

use serde::Deserialize;

use super::lifetimes::{Histogram, Lifetimes};
use crate::fleet::listing::PodListing;
use crate::gate::text::many;
use crate::gate::{Stream, Streams};

/// The streams that files describe.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Known {
    /// Ages in seconds.
    pub ages: Vec<f64>,
    /// Streams in flight, summed over all listings.
    pub in_flight: f64,
    /// The number of listings.
    pub listings: u32,
    /// Pods that have not listed their streams, so that these are not known.
    pub unlisted: u32,
    /// Upper bounds in seconds, and counts.
    pub buckets: Vec<(f64, f64)>,
}

/// The output of `laststream streams -o json` for many pods.
#[derive(Deserialize)]
struct OfPods {
    pods: Vec<PodListing>,
    streams: Vec<Stream>,
}

impl Known {
    /// Adds the text of a file.
    ///
    /// # Errors
    /// The text is neither a listing of streams nor a histogram of durations.
    pub fn add(&mut self, text: &str, metric: Option<&str>) -> Result<(), String> {
        if text.trim_start().starts_with('{') {
            return self.add_listings(text);
        }
        let before = self.buckets.len();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            self.buckets.extend(bucket(line, metric));
        }
        if self.buckets.len() > before { Ok(()) } else { Err(NOTHING.to_owned()) }
    }

    fn add_listings(&mut self, text: &str) -> Result<(), String> {
        for answer in serde_json::Deserializer::from_str(text).into_iter() {
            let answer: serde_json::Value = answer.map_err(|error| error.to_string())?;
            if answer.get("pods").is_some() {
                self.add_pods(answer)?;
                continue;
            }
            let listing = Streams::deserialize(answer)
                .map_err(|error| format!("is no answer of `GET /streams`: {error}"))?;
            self.add_ages(&listing.streams);
            let listed = listing.streams.len() as f64;
            // A listing also has exempt long-lived streams, which hold no drain.
            self.in_flight +=
                if listing.complete { listed } else { listed.max(listing.holding as f64) };
            self.listings = self.listings.saturating_add(1);
        }
        Ok(())
    }

    /// Each pod counts as a listing, even without a stream. The list has the oldest streams of all
    /// pods; the pods' counts say how many there are.
    fn add_pods(&mut self, answer: serde_json::Value) -> Result<(), String> {
        let OfPods { pods, streams } = OfPods::deserialize(answer)
            .map_err(|error| format!("is no list of `laststream streams -o json`: {error}"))?;
        for pod in pods {
            match (pod.listed, pod.in_flight) {
                (Some(listed), Some(in_flight)) => {
                    self.in_flight += in_flight.max(listed) as f64;
                    self.listings = self.listings.saturating_add(1);
                }
                _ => self.unlisted = self.unlisted.saturating_add(1),
            }
        }
        self.add_ages(&streams);
        Ok(())
    }

    fn add_ages(&mut self, streams: &[Stream]) {
        self.ages.extend(streams.iter().map(|stream| stream.age_ms as f64 / 1_000.0));
    }

    /// The streams and pods that the listings lack, for the line that names the source.
    #[must_use]
    pub fn lacks(&self) -> String {
        let listed = self.ages.len();
        let streams = match self.in_flight {
            all if all > listed as f64 => format!(", with the {listed} oldest of {all:.0} streams"),
            _ => String::new(),
        };
        let pods = match self.unlisted {
            0 => String::new(),
            pods => format!(", without {}", many(pods.into(), "pod")),
        };
        streams + &pods
    }

    /// The durations, summed over all series.
    #[must_use]
    pub fn histogram(&self) -> Option<Histogram> {
        let mut sums: Vec<(f64, f64)> = Vec::new();
        for (bound, count) in &self.buckets {
            match sums.iter_mut().find(|(other, _)| other.total_cmp(bound).is_eq()) {
                Some((_, sum)) => *sum += count,
                None => sums.push((*bound, *count)),
            }
        }
        Histogram::new(sums)
    }

    /// The lifetimes of streams, from ages and durations.
    #[must_use]
    pub fn lifetimes(&self) -> Option<Lifetimes> {
        let of_ages = Lifetimes::of_ages(self.ages.clone(), self.in_flight);
        let of_durations = self.histogram().as_ref().map(Lifetimes::of_durations);
        match (of_ages, of_durations) {
            (Some(ages), Some(durations)) => Some(ages.or_longer(&durations)),
            (ages, durations) => ages.or(durations),
        }
    }
}

const NOTHING: &str = "has neither an answer of `GET /streams` nor a histogram of durations \
    (`istio_request_duration_milliseconds`, `envoy_http_downstream_rq_time`): save \
    `laststream streams -o json --limit 100`, or `curl POD:15090/stats/prometheus`";

/// Istio's and Envoy's histograms of durations, and their units in seconds.
pub const METRICS: [(&str, f64); 2] =
    [("istio_request_duration_milliseconds", 0.001), ("envoy_http_downstream_rq_time", 0.001)];

/// The unit of a metric in seconds.
///
/// # Errors
/// The name of the metric does not say its unit.
pub fn unit(metric: &str) -> Result<f64, String> {
    let known = METRICS.iter().find(|(name, _)| *name == metric).map(|(_, unit)| *unit);
    let said = || metric.ends_with("_seconds").then_some(1.0);
    let milli = || metric.ends_with("_milliseconds").then_some(0.001);
    known.or_else(said).or_else(milli).ok_or_else(|| {
        format!(
            "`{metric}` does not say its unit: name one that ends with `_seconds` or \
                `_milliseconds`"
        )
    })
}

/// The label with the connection manager, in Envoy's histograms.
pub(super) const CONNECTION_MANAGER: &str = "envoy_http_conn_manager_prefix";
/// Connection managers of the proxy itself, beside laststream's.
pub(super) const OWN: [&str; 5] = ["admin", "stats", "agent", "eg-ready-http", "eg-stats-http"];

/// Whether requests of this connection manager are to the proxy itself. Gates ignore them, because
/// a held stop hook or a scrape is no stream.
pub(super) fn is_own(prefix: &str) -> bool {
    OWN.contains(&prefix) || prefix.starts_with("laststream")
}

/// Parses a line such as `NAME_bucket{le="5"} 17`.
fn bucket(line: &str, metric: Option<&str>) -> Option<(f64, f64)> {
    let (name, rest) = line.split_once("_bucket{")?;
    let is_wanted = metric
        .map_or_else(|| METRICS.iter().any(|(known, _)| *known == name), |metric| metric == name);
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
    use super::{Known, bucket};

    #[test]
    fn histograms_of_several_series_are_summed() {
        let text = "# TYPE x histogram\n\
            istio_request_duration_milliseconds_bucket{pod=\"a\",le=\"500\"} 8\n\
            istio_request_duration_milliseconds_bucket{pod=\"a\",le=\"+Inf\"} 10 1700000000\n\
            istio_request_duration_milliseconds_bucket{le=\"500\",pod=\"b\"} 2\n\
            istio_request_duration_milliseconds_bucket{le=\"+Inf\",pod=\"b\"} 10\n\
            other_bucket{le=\"1\"} 99\n";
        let mut known = Known::default();
        known.add(text, None).expect("a histogram");
        let histogram = known.histogram().expect("streams");
        assert_eq!((histogram.buckets.as_slice(), histogram.total), (&[(0.5, 10.0)][..], 20.0));
        assert!(known.add("nothing\n", None).is_err_and(|error| error.contains("GET /streams")));
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

    const PODS: &str = r#"{"complete": false, "pods": [
            {"namespace": "n", "pod": "a", "in_flight": 5000, "listed": 2, "complete": false},
            {"namespace": "n", "pod": "b", "in_flight": 1, "listed": 1, "complete": true},
            {"namespace": "n", "pod": "c", "in_flight": 0, "listed": 0, "complete": true},
            {"namespace": "n", "pod": "d", "in_flight": 7, "complete": false, "why": "late"}],
        "streams": [
            {"namespace": "n", "pod": "a", "scope": "inbound", "age_ms": 2000},
            {"namespace": "n", "pod": "a", "scope": "inbound", "age_ms": 1000},
            {"namespace": "n", "pod": "b", "scope": "inbound", "age_ms": 500}]}"#;

    #[test]
    fn a_truncated_list_of_many_pods_counts_all_their_streams() {
        let mut known = Known::default();
        known.add(PODS, None).expect("a list");
        assert_eq!((known.listings, known.in_flight, known.unlisted), (3, 5001.0, 1));
        assert_eq!(known.ages, [2.0, 1.0, 0.5]);
        assert_eq!(known.lacks(), ", with the 3 oldest of 5001 streams, without 1 pod");
        let lifetimes = known.lifetimes().expect("streams");
        assert!(lifetimes.longer_than(0.6) < 0.001, "three of 5001 are older: {lifetimes:?}");
        assert!(known.add(r#"{"pods": 1}"#, None).is_err());
        assert!(known.add("[]", None).is_err());
    }

    #[test]
    fn unlisted_streams_count_as_younger_than_the_listed_ones() {
        let text = r#"{"state": "serving", "holding": 10, "complete": false, "streams": [
            {"scope": "gateway", "age_ms": 60000}, {"scope": "gateway", "age_ms": 30000}]}
            {"state": "serving", "holding": 0, "complete": true, "streams": []}"#;
        let mut known = Known::default();
        known.add(text, None).expect("two listings");
        assert_eq!((known.listings, known.in_flight), (2, 10.0));
        assert_eq!(known.lacks(), ", with the 2 oldest of 10 streams");
        let lifetimes = known.lifetimes().expect("streams");
        assert!((lifetimes.longer_than(30.0) - 0.1).abs() < 0.11, "{lifetimes:?}");
        assert!(lifetimes.longer_than(29.0) < 0.25);
        assert!(known.add("{", None).is_err());
    }
}
