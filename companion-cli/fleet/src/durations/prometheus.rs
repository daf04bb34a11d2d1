//! Durations from a Prometheus, by its HTTP API.

use std::time::Duration;

use serde_json::Value;
use url::form_urlencoded;

use super::histogram::Histogram;
use super::{CONNECTION_MANAGER, METRICS, Measured, OWN, unit};
use laststream_base::time_span::TimeSpan;
use laststream_base::visible::brief;
use laststream_http::url::Url;
use laststream_http::{Client, Limits, Request, Route, Secret, Settings, Trust};

/// The time limit of a query; Prometheus itself gives up after two minutes.
const TIME_LIMIT: Duration = Duration::from_secs(60);
const CONNECT: Duration = Duration::from_secs(10);
const LONGEST: u64 = 16 << 20;

#[derive(Debug, Clone)]
pub struct Query<'q> {
    pub url: &'q str,
    pub token: Option<&'q str>,
    /// The histogram. By default the first of the known ones that has data.
    pub metric: Option<&'q str>,
    /// Labels of the series, such as `namespace="shop"`.
    pub selector: &'q str,
    pub window: TimeSpan,
}

impl Query<'_> {
    pub fn measure(&self) -> Result<Measured, String> {
        let limits = Limits { connect: CONNECT, silence: TIME_LIMIT, request: TIME_LIMIT };
        let (trust, route) = (Trust::default(), Route::with_proxy(true));
        let client = Client::new(Settings { trust, route, keeps_connections: true, limits });
        let metrics = self.metric.map_or(METRICS.to_vec(), |name| vec![name]);
        for metric in &metrics {
            if let Some(measured) = self.of_metric(&client, metric)? {
                return Ok(measured);
            }
        }
        let metrics: Vec<_> = metrics.iter().map(|name| format!("`{name}_bucket`")).collect();
        Err(format!(
            "`{}` has no streams of the last {} in {}: name the histogram with `--metric`, or \
                other labels with `--selector`",
            self.url,
            self.window,
            metrics.join(" or ")
        ))
    }

    fn of_metric(&self, client: &Client, metric: &str) -> Result<Option<Measured>, String> {
        let (unit, buckets) = (unit(metric)?, buckets(metric, self.selector));
        let answer =
            self.ask(client, &format!("sum by (le) (increase({buckets}[{}]))", self.window))?;
        let bucket = |series: &Value| {
            let bound: f64 = series["metric"]["le"].as_str()?.parse().ok()?;
            let count: f64 = series["value"][1].as_str()?.parse().ok()?;
            Some((bound * unit, count))
        };
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let series = list(&answer["data"]["result"]);
        let durations = Histogram::new(series.iter().filter_map(bucket).collect());
        // For example, of a Thanos Query that answers without one of its stores.
        let warnings = list(&answer["warnings"]);
        let warnings = warnings.iter().filter_map(Value::as_str).map(|warning| {
            format!("Prometheus warns: {}; the result may lack streams", brief(warning))
        });
        let source = format!("`{metric}` of the last {}", self.window);
        let warnings = warnings.collect();
        Ok(durations.map(|durations| Measured { source, durations, warnings }))
    }

    /// The answer to an instant query.
    fn ask(&self, client: &Client, expression: &str) -> Result<Value, String> {
        let query: String = form_urlencoded::byte_serialize(expression.as_bytes()).collect();
        let base = self.url.trim_end_matches('/');
        let url = Url::parse(&format!("{base}/api/v1/query?query={query}"))
            .ok_or("this is not the address of a Prometheus")?;
        let authorization = self.token.map(|token| Secret::new(format!("Bearer {token}")));
        let authorization = authorization.as_ref();
        let request = Request { authorization, ..Request::get(&url) };
        let failed = |error: &dyn std::fmt::Display| format!("cannot ask `{base}`: {error}");
        let response = client.send(&request).map_err(|error| failed(&error))?;
        let status = response.status;
        let body = response.bytes(LONGEST).map_err(|error| failed(&error))?;
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        if answer["status"] == "success" {
            return Ok(answer);
        }
        let why = answer["error"].as_str().unwrap_or("this is not Prometheus' HTTP API");
        Err(failed(&format!("{status}: {why}")))
    }
}

/// Whether this is an HTTP address without a user in it.
pub fn is_address(url: &str) -> bool {
    Url::parse(url).is_some()
}

/// The series of a histogram, without requests to the proxy itself.
fn buckets(metric: &str, selector: &str) -> String {
    let exclusion = match metric {
        "envoy_http_downstream_rq_time" => {
            format!("{CONNECTION_MANAGER}!~\"{}|laststream.*\"", OWN.join("|"))
        }
        _ => String::new(),
    };
    let matchers = [exclusion.as_str(), selector.trim()];
    let matchers: Vec<&str> = matchers.into_iter().filter(|text| !text.is_empty()).collect();
    format!("{metric}_bucket{{{}}}", matchers.join(", "))
}
