//! Durations and numbers of streams from a Prometheus, by its HTTP API.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Method;
use serde_json::Value;
use url::form_urlencoded;

use super::files::{CONNECTION_MANAGER, METRICS, OWN, unit};
use super::lifetimes::Histogram;
use crate::base::http::url::Url;
use crate::base::http::{Client, Limits, Request, Route, Secret, Settings, Trust};
use crate::base::time_span::TimeSpan;
use crate::base::visible::brief;

/// The time limit of a query; Prometheus itself gives up after two minutes.
const PATIENCE: Duration = Duration::from_secs(60);
const CONNECT: Duration = Duration::from_secs(10);
const LONGEST: u64 = 16 << 20;

/// The parameters of a measurement.
#[derive(Debug, Clone)]
pub struct Query<'q> {
    /// The address of Prometheus.
    pub url: &'q str,
    /// A bearer token.
    pub token: Option<&'q str>,
    /// The histogram. By default the first of the known ones that has data.
    pub metric: Option<&'q str>,
    /// Labels of the series, such as `namespace="shop"`.
    pub selector: &'q str,
    /// The time to look back.
    pub window: TimeSpan,
}

/// The data that Prometheus has.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The histogram's name.
    pub metric: String,
    /// The durations.
    pub durations: Histogram,
    /// The number of proxies that count streams.
    pub pods: Option<u32>,
    /// Streams in flight on all of them, on average.
    pub in_flight: Option<f64>,
    /// The part of the window for which the histogram has data. It is shorter than the window if
    /// Prometheus keeps less, or did not run.
    pub covered: TimeSpan,
    /// Reasons why these numbers may be wrong.
    pub warnings: Vec<String>,
}

/// Asks Prometheus for durations, pods and streams in flight.
///
/// # Errors
/// Prometheus does not answer, refuses, or has no such series; with what to do.
pub fn measure(query: &Query<'_>) -> Result<Measured, String> {
    let mut api = Api::new(query);
    let metrics: Vec<&str> =
        query.metric.map_or(METRICS.iter().map(|(name, _)| *name).collect(), |name| vec![name]);
    for metric in &metrics {
        if let Some(durations) = api.durations(metric, query)? {
            let (pods, in_flight) = api.fleet(query)?;
            let (metric, covered) = ((*metric).to_owned(), api.covered(metric, query));
            let warnings = api.warnings.into_iter().collect();
            return Ok(Measured { metric, durations, pods, in_flight, covered, warnings });
        }
    }
    Err(format!(
        "`{}` has no streams of the last {} in {}: name the histogram with `--metric`, or other \
            labels with `--selector`",
        query.url,
        query.window,
        metrics.iter().map(|name| format!("`{name}_bucket`")).collect::<Vec<_>>().join(" or ")
    ))
}

/// Whether this is an HTTP address without a user in it.
#[must_use]
pub fn is_address(url: &str) -> bool {
    Url::parse(url).is_some()
}

struct Api<'q> {
    url: &'q str,
    authorization: Option<Secret>,
    client: Client,
    warnings: BTreeSet<String>,
}

impl<'q> Api<'q> {
    fn new(query: &Query<'q>) -> Self {
        let limits = Limits { connect: CONNECT, silence: PATIENCE, request: PATIENCE };
        let client = Client::new(Settings {
            trust: Trust::default(),
            route: Route::with_proxy(true),
            keeps_connections: true,
            limits,
        });
        let authorization = query.token.map(|token| Secret::new(format!("Bearer {token}")));
        let (url, warnings) = (query.url.trim_end_matches('/'), BTreeSet::new());
        Self { url, authorization, client, warnings }
    }

    /// The result of an instant query.
    fn ask(&mut self, expression: &str) -> Result<Vec<Value>, String> {
        let query: String = form_urlencoded::byte_serialize(expression.as_bytes()).collect();
        let url = Url::parse(&format!("{}/api/v1/query?query={query}", self.url))
            .ok_or("this is no address of a Prometheus")?;
        let authorization = self.authorization.as_ref();
        let request =
            Request { method: Method::GET, url: &url, headers: &[], authorization, body: None };
        let failed = |error: &dyn std::fmt::Display| format!("cannot ask `{}`: {error}", self.url);
        let response = self.client.send(&request).map_err(|error| failed(&error))?;
        let status = response.status;
        let body = response.bytes(LONGEST).map_err(|error| failed(&error))?;
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        if answer["status"] != "success" {
            let why = answer["error"].as_str().unwrap_or("this is not Prometheus' HTTP API");
            return Err(failed(&format!("{status}: {why}")));
        }
        // For example, of a Thanos Query that answers without one of its stores.
        let warnings = answer["warnings"].as_array().into_iter().flatten();
        self.warnings.extend(warnings.filter_map(Value::as_str).map(|warning| {
            format!("Prometheus warns: {}; the result may lack streams", brief(warning))
        }));
        Ok(answer["data"]["result"].as_array().cloned().unwrap_or_default())
    }

    /// Asks for a number that is not required: a subquery over many series may need more samples
    /// than Prometheus loads for one query. `None` if that fails, `Some(None)` if there are no such
    /// series.
    fn ask_number(&mut self, expression: &str, without: &str) -> Option<Option<f64>> {
        match self.ask(expression) {
            Ok(series) => Some(series.first().and_then(number)),
            Err(error) => {
                self.warnings.insert(format!("{error}; {without}"));
                None
            }
        }
    }

    fn durations(&mut self, metric: &str, query: &Query<'_>) -> Result<Option<Histogram>, String> {
        let unit = unit(metric)?;
        let buckets = buckets(metric, "", query.selector);
        let series = self.ask(&format!("sum by (le) (increase({buckets}[{}]))", query.window))?;
        let bucket = |series: &Value| {
            let bound: f64 = series["metric"]["le"].as_str()?.parse().ok()?;
            Some((bound * unit, number(series)?))
        };
        Ok(Histogram::new(series.iter().filter_map(bucket).collect()))
    }

    /// The part of the window for which the histogram has data: the whole window if that is not
    /// known, and one step if there is no data at a full step.
    fn covered(&mut self, metric: &str, query: &Query<'_>) -> TimeSpan {
        let all = buckets(metric, "le=\"+Inf\"", query.selector);
        let (window, step) = (query.window.whole_seconds(), step(query.window));
        let steps = format!("count_over_time(count({all})[{}:{step}])", query.window);
        let steps = self.ask_number(&steps, "the rate is that of the whole window");
        // A window may have one step more than its length.
        let length =
            |steps: Option<f64>| steps.map_or(1, |steps| steps as u64) * step.whole_seconds();
        let seconds = steps.map_or(window, length);
        let is_whole = seconds >= window - window / 20;
        if is_whole { query.window } else { TimeSpan::seconds(seconds.max(1)) }
    }

    /// Pods and streams in flight, if proxies export laststream's metrics. The series that the
    /// rendered rules record exist once; those of a proxy exist once for each job that scrapes it.
    fn fleet(&mut self, query: &Query<'_>) -> Result<(Option<u32>, Option<f64>), String> {
        let of = |name: &str| format!("{{{}}}", and(&[name, query.selector]));
        let recorded = of("__name__=\"laststream:streams_in_flight\"");
        let scraped = of("__name__=~\"laststream_streams_in_flight_.+\"");
        let known = self.gauges(&recorded, query.window)?;
        if known == (None, None) { self.gauges(&scraped, query.window) } else { Ok(known) }
    }

    /// The number of pods with such series, and the average of the sum of these.
    fn gauges(
        &mut self,
        series: &str,
        window: TimeSpan,
    ) -> Result<(Option<u32>, Option<f64>), String> {
        let pods = self.ask(&format!("count(count by (instance) ({series}))"))?;
        let in_flight = format!("avg_over_time(sum({series})[{window}:{}])", step(window));
        let in_flight =
            self.ask_number(&in_flight, "the streams in flight follow from rate and durations");
        let in_flight = in_flight.flatten();
        Ok((pods.first().and_then(number).map(|count| count as u32), in_flight))
    }
}

/// The series of a histogram, without those of [`super::files::is_own`].
fn buckets(metric: &str, label: &str, selector: &str) -> String {
    let own = match metric {
        "envoy_http_downstream_rq_time" => {
            format!("{CONNECTION_MANAGER}!~\"{}|laststream.*\"", OWN.join("|"))
        }
        _ => String::new(),
    };
    format!("{metric}_bucket{{{}}}", and(&[label, &own, selector]))
}

/// Joins label matchers to one list.
fn and(matchers: &[&str]) -> String {
    let matchers = matchers.iter().map(|matcher| matcher.trim()).filter(|text| !text.is_empty());
    matchers.collect::<Vec<_>>().join(", ")
}

/// The step of an average: at least sixty samples if the window is that long. Prometheus aligns
/// steps to the Unix epoch, so a short window may lie between two long steps. Each step looks back
/// five minutes for a sample, so longer steps would miss some.
fn step(window: TimeSpan) -> TimeSpan {
    TimeSpan::seconds((window.whole_seconds() / 60).clamp(1, 300))
}

fn number(series: &Value) -> Option<f64> {
    series["value"][1].as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::step;
    use crate::base::time_span::TimeSpan;

    #[test]
    fn short_windows_have_enough_samples() {
        for (window, expected) in [(1, 1), (90, 1), (600, 10), (3_600, 60), (86_400, 300)] {
            assert_eq!(step(TimeSpan::seconds(window)), TimeSpan::seconds(expected), "{window}");
        }
    }
}
