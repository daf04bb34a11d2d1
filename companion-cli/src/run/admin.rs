//! Asking Envoy's admin interface and the gate, on the loopback interface and without any proxy between.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use ureq::Agent;

/// Both answer at once, unless Envoy is dead or very busy.
const PATIENCE: Duration = Duration::from_secs(5);

/// What does not work out is a text: whoever asks tries again anyway.
#[derive(Debug, Clone)]
pub(super) struct Http {
    agent: Agent,
    at: SocketAddr,
}

impl Http {
    pub(super) fn new(at: SocketAddr) -> Self {
        let config = Agent::config_builder().proxy(None).http_status_as_error(false).timeout_global(Some(PATIENCE)).build();
        Self { agent: Agent::new_with_config(config), at }
    }

    pub(super) fn at(&self) -> SocketAddr {
        self.at
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.at)
    }

    pub(super) fn get(&self, path: &str) -> Result<(u16, String), String> {
        answer(self.agent.get(format!("{}{path}", self.url())).header("connection", "close").call())
    }

    pub(super) fn post(&self, path: &str) -> Result<(u16, String), String> {
        answer(self.agent.post(format!("{}{path}", self.url())).header("connection", "close").send_empty())
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

fn answer(response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<(u16, String), String> {
    let mut response = response.map_err(|error| error.to_string())?;
    let text = response.body_mut().read_to_string().map_err(|error| error.to_string())?;
    Ok((response.status().as_u16(), text))
}
