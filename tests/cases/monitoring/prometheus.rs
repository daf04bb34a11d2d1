//! A real Prometheus with rendered rules, and queries to its API.

use std::path::Path;
use std::process::Command;

use kit::prelude::*;
use kit::process::Process;
use kit::programs::program;
use kit::wire::{free_port, local};

pub(super) struct Prometheus {
    address: SocketAddr,
    _process: Process,
    _data: tempfile::TempDir,
}

impl Prometheus {
    pub(super) fn start(config: &Path) -> Outcome<Self> {
        let (address, data) = (local(free_port()?), tempfile::tempdir()?);
        let mut command = Command::new(program("prometheus")?);
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", data.path().display()))
            .arg(format!("--web.listen-address={address}"));
        Ok(Self { address, _process: Process::capture(&command)?, _data: data })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    async fn get(&self, path: &str) -> Outcome<Value> {
        let answer = once(self.address, &Request::get(path)).await?.expect(200)?.json()?;
        ensure_eq!(answer["status"], "success", "{path}: {answer}");
        Ok(answer["data"].clone())
    }

    /// The names of the alerts that fire.
    pub(super) async fn firing(&self) -> Outcome<Vec<String>> {
        let alerts = self.get("/api/v1/alerts").await?;
        let firing = alerts["alerts"].as_array().into_iter().flatten();
        let firing = firing.filter(|alert| alert["state"] == "firing");
        let mut names: Vec<String> = firing
            .filter_map(|alert| Some(alert["labels"]["alertname"].as_str()?.to_owned()))
            .collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// The present result of an expression.
    pub(super) async fn series(&self, expression: &str) -> Outcome<Vec<Value>> {
        let data = self.get(&format!("/api/v1/query?query={}", encoded(expression))).await?;
        Ok(data["result"].as_array().cloned().unwrap_or_default())
    }
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
