//! Streams from files: answers of `GET /streams`, and histograms in Prometheus' text form.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::lifetimes::{Histogram, Lifetimes};
use crate::gate::Streams;

/// What files say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Known {
    /// Ages in seconds.
    pub ages: Vec<f64>,
    /// Streams in flight, of all gates that were asked.
    pub in_flight: f64,
    /// How many listings there are.
    pub listings: u32,
    /// Upper bounds in seconds, and counts.
    pub buckets: Vec<(f64, f64)>,
}

/// A stream, and the pod that it is in.
#[derive(Deserialize)]
struct OfPod {
    namespace: String,
    pod: String,
    age_ms: u64,
}

impl Known {
    /// Adds the text of a file.
    ///
    /// # Errors
    /// What the text is not.
    pub fn add(&mut self, text: &str, metric: Option<&str>) -> Result<(), String> {
        if text.trim_start().starts_with('{') {
            return self.add_listings(text);
        }
        if text.trim_start().starts_with('[') {
            return self.add_pods(text);
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
            let listing = Streams::deserialize(answer)
                .map_err(|error| format!("is no answer of `GET /streams`: {error}"))?;
            self.ages.extend(listing.streams.iter().map(|stream| stream.age_ms as f64 / 1_000.0));
            let listed = listing.streams.len() as f64;
            // A listing also has long-lived streams that hold nothing.
            self.in_flight +=
                if listing.complete { listed } else { listed.max(listing.holding as f64) };
            self.listings += 1;
        }
        Ok(())
    }

    /// What `laststream streams -o json` prints for many pods: each pod counts as a listing.
    fn add_pods(&mut self, text: &str) -> Result<(), String> {
        let streams: Vec<OfPod> = serde_json::from_str(text)
            .map_err(|error| format!("is no list of streams: {error}"))?;
        let pods: BTreeSet<_> = streams.iter().map(|of| (&of.namespace, &of.pod)).collect();
        self.listings += u32::try_from(pods.len()).unwrap_or(u32::MAX);
        self.in_flight += streams.len() as f64;
        self.ages.extend(streams.iter().map(|of| of.age_ms as f64 / 1_000.0));
        Ok(())
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

    /// How long streams last, from all that is known.
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

/// Histograms of durations that Istio and Envoy have, and what a unit of them is in seconds.
pub const METRICS: [(&str, f64); 2] =
    [("istio_request_duration_milliseconds", 0.001), ("envoy_http_downstream_rq_time", 0.001)];

/// What a unit of a metric is in seconds.
///
/// # Errors
/// Its name does not say.
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

/// A line such as `NAME_bucket{le="5"} 17`.
fn bucket(line: &str, metric: Option<&str>) -> Option<(f64, f64)> {
    let (name, rest) = line.split_once("_bucket{")?;
    let is_wanted = metric
        .map_or_else(|| METRICS.iter().any(|(known, _)| *known == name), |metric| metric == name);
    let unit = unit(name).ok().filter(|_| is_wanted)?;
    let (labels, values) = rest.rsplit_once('}')?;
    let (_, bound) = labels.split_once("le=\"")?;
    let bound: f64 = bound.split('"').next()?.parse().ok()?;
    let count: f64 = values.split_whitespace().next()?.parse().ok()?;
    Some((bound * unit, count))
}

#[cfg(test)]
mod tests {
    use super::Known;

    #[test]
    fn histograms_of_several_series_are_one() {
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
    fn a_list_of_many_pods_is_a_listing_of_each() {
        let text = r#"[{"namespace": "n", "pod": "a", "scope": "inbound", "age_ms": 2000},
            {"namespace": "n", "pod": "a", "scope": "inbound", "age_ms": 1000},
            {"namespace": "n", "pod": "b", "scope": "inbound", "age_ms": 500}]"#;
        let mut known = Known::default();
        known.add(text, None).expect("a list");
        assert_eq!((known.listings, known.in_flight), (2, 3.0));
        assert_eq!(known.ages, [2.0, 1.0, 0.5]);
        assert!(known.add("[{}]", None).is_err());
    }

    #[test]
    fn a_listing_of_the_oldest_says_what_the_others_are_not() {
        let text = r#"{"state": "serving", "holding": 10, "complete": false, "streams": [
            {"scope": "gateway", "age_ms": 60000}, {"scope": "gateway", "age_ms": 30000}]}
            {"state": "serving", "holding": 0, "complete": true, "streams": []}"#;
        let mut known = Known::default();
        known.add(text, None).expect("two listings");
        assert_eq!((known.listings, known.in_flight), (2, 10.0));
        let lifetimes = known.lifetimes().expect("streams");
        assert!((lifetimes.longer_than(30.0) - 0.1).abs() < 0.11, "{lifetimes:?}");
        assert!(lifetimes.longer_than(29.0) < 0.25);
        assert!(known.add("{", None).is_err());
    }
}
