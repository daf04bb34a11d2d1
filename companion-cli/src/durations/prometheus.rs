//! Durations from a Prometheus, by its HTTP API.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Method;
use serde_json::Value;
use url::form_urlencoded;

use super::histogram::Histogram;
use super::{CONNECTION_MANAGER, METRICS, OWN, unit};
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
    /// Reasons why these numbers may be wrong.
    pub warnings: Vec<String>,
}

/// Asks Prometheus for durations.
///
/// # Errors
/// Prometheus does not answer, refuses, or has no such series; with what to do.
pub fn measure(query: &Query<'_>) -> Result<Measured, String> {
    let mut api = Api::new(query);
    let metrics = query.metric.map_or(METRICS.to_vec(), |name| vec![name]);
    for metric in &metrics {
        if let Some(durations) = api.durations(metric, query)? {
            let warnings = api.warnings.into_iter().collect();
            return Ok(Measured { metric: (*metric).to_owned(), durations, warnings });
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

    fn durations(&mut self, metric: &str, query: &Query<'_>) -> Result<Option<Histogram>, String> {
        let unit = unit(metric)?;
        let buckets = buckets(metric, query.selector);
        let series = self.ask(&format!("sum by (le) (increase({buckets}[{}]))", query.window))?;
        let bucket = |series: &Value| {
            let bound: f64 = series["metric"]["le"].as_str()?.parse().ok()?;
            let count: f64 = series["value"][1].as_str()?.parse().ok()?;
            Some((bound * unit, count))
        };
        Ok(Histogram::new(series.iter().filter_map(bucket).collect()))
    }
}

/// The series of a histogram, without requests to the proxy itself.
fn buckets(metric: &str, selector: &str) -> String {
    let own = match metric {
        "envoy_http_downstream_rq_time" => {
            format!("{CONNECTION_MANAGER}!~\"{}|laststream.*\"", OWN.join("|"))
        }
        _ => String::new(),
    };
    let matchers = [own.as_str(), selector.trim()];
    let matchers: Vec<&str> = matchers.into_iter().filter(|text| !text.is_empty()).collect();
    format!("{metric}_bucket{{{}}}", matchers.join(", "))
}
