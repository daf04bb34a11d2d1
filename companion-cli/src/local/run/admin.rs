//! Asking Envoy's admin interface and the gate, on the loopback interface and without any proxy between.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use http::Method;
use serde_json::Value;

use crate::gate;
use crate::oci::registry::credentials::Secret;

/// Both answer at once, unless Envoy is dead or very busy.
const PATIENCE: Duration = Duration::from_secs(5);

/// What does not work out is a text: whoever asks tries again anyway.
#[derive(Debug, Clone)]
pub(super) struct Http {
    http: gate::Http,
    at: SocketAddr,
    secret: Option<Secret>,
}

impl Http {
    pub(super) fn new(at: SocketAddr) -> Self {
        Self { http: gate::Http::default(), at, secret: None }
    }

    /// Sends this with every request.
    pub(super) fn with_secret(self, secret: Option<Secret>) -> Self {
        Self { secret, ..self }
    }

    pub(super) fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }

    pub(super) fn at(&self) -> SocketAddr {
        self.at
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.at)
    }

    pub(super) fn get(&self, path: &str) -> Result<(u16, String), String> {
        self.ask(Method::GET, path)
    }

    pub(super) fn post(&self, path: &str) -> Result<(u16, String), String> {
        self.ask(Method::POST, path)
    }

    fn ask(&self, method: Method, path: &str) -> Result<(u16, String), String> {
        let secret = self.secret.as_ref().map(|secret| (gate::SECRET_HEADER, secret.reveal().to_owned()));
        let response = self.http.ask(method, &format!("{}{path}", self.url()), secret.as_slice(), PATIENCE);
        response.map(|response| (response.status, response.body)).map_err(|trouble| trouble.to_string())
    }

    pub(super) fn json(&self, path: &str) -> Result<Value, String> {
        let (status, text) = self.get(path)?;
        serde_json::from_str(&text).map_err(|_| format!("{path} answers {status}, {}", text.trim()))
    }

    /// Counters and gauges whose names begin with this.
    pub(super) fn stats(&self, prefix: &str) -> Result<BTreeMap<String, u64>, String> {
        // Dots match themselves as well.
        let (_, text) = self.get(&format!("/stats?filter=%5E{prefix}"))?;
        let pairs = text.lines().filter_map(|line| line.rsplit_once(": "));
        Ok(pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect())
    }
}
