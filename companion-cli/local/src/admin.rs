//! Envoy's admin interface, on the loopback interface or on a socket in the file system.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::Method;
use serde_json::Value;

use laststream_gate::Response;
use laststream_http::Route;

use crate::http::Http;

/// The time limit for an answer. Envoy answers at once, unless it is dead or very busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client of the admin interface. Errors are texts, because callers only retry.
#[derive(Debug, Clone)]
pub(crate) struct Admin {
    http: Http,
    url: String,
}

impl Admin {
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self { http: Http::default(), url: format!("http://{address}") }
    }

    pub(crate) fn on_socket(path: PathBuf) -> Self {
        Self { http: Http::new(Route::Socket(path), false), url: "http://localhost".to_owned() }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn get(&self, path: &str) -> Result<Response, String> {
        self.request(Method::GET, path)
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> Result<Response, String> {
        self.http
            .request(method, &format!("{}{path}", self.url), &[], PATIENCE)
            .map_err(|trouble| trouble.to_string())
    }

    /// Whether Envoy takes requests.
    pub(crate) fn is_ready(&self) -> bool {
        self.get("/ready").is_ok_and(|response| response.status == 200)
    }

    /// The address of a listener, once it listens.
    pub(crate) fn listener(&self, name: &str) -> Option<SocketAddr> {
        let statuses: Value =
            serde_json::from_str(&self.get("/listeners?format=json").ok()?.body).ok()?;
        let listeners = statuses["listener_statuses"]
            .as_array()?
            .iter()
            .find(|status| status["name"] == name)?;
        let socket = &listeners["local_address"]["socket_address"];
        let port = u16::try_from(socket["port_value"].as_u64()?).ok().filter(|port| *port != 0)?;
        Some(SocketAddr::new(socket["address"].as_str()?.parse().ok()?, port))
    }

    /// Counters and gauges whose names begin with this prefix.
    pub(crate) fn stats(&self, prefix: &str) -> Result<BTreeMap<String, u64>, String> {
        // The filter is a regular expression; the dots of the prefix match themselves, too.
        let response = self.get(&format!("/stats?filter=%5E{prefix}"))?;
        let pairs = response.body.lines().filter_map(|line| line.rsplit_once(": "));
        Ok(pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect())
    }
}
