//! An API server with pods, and the program with a kubeconfig for it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use kit::command::{CommandOutput, run};
use kit::fake_server::{Answer, Asked, FakeServer, Fault};
use kit::process::guarded;
use kit::{Context as _, Outcome};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A command that waits for a hang is killed before the hang is over, so its test fails.
pub(crate) const HANG: Duration = Duration::from_secs(3_600);

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_laststream");
pub(crate) const STATUS: [&str; 3] = ["status", "-n", "shop"];
pub(crate) const LIST: &str = "/api/v1/namespaces/shop/pods";
pub(crate) const PAGE: &str = "laststream_gate_state{} 0\nlaststream_gate_count_exact{} 1\n\
    laststream_streams_in_flight_inbound{} 2\n";

/// A home with a kubeconfig, and the API server that it names.
pub(crate) struct Cluster {
    pub(crate) server: FakeServer,
    home: TempDir,
}

impl Cluster {
    pub(crate) fn start(
        script: impl Fn(&Asked, usize) -> Result<Answer, Fault> + Send + Sync + 'static,
    ) -> Outcome<Self> {
        let server = FakeServer::start(script)?;
        let home = tempfile::tempdir()?;
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{ "name": "test", "cluster": { "server": server.url("") } }],
            "contexts": [{ "name": "test", "context": { "cluster": "test", "namespace": "shop" } }],
        });
        std::fs::write(home.path().join("config"), config.to_string())?;
        Ok(Self { server, home })
    }

    /// A cluster with these pods; `otherwise` answers all other requests.
    pub(crate) fn with_pods(
        pods: &[Value],
        otherwise: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    ) -> Outcome<Self> {
        let all = list(pods, "");
        Self::start(move |asked, _| {
            Ok(if asked.path() == LIST { all.clone() } else { otherwise(asked) })
        })
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = guarded(PROGRAM);
        command.args(arguments).env_clear().env("HOME", self.home.path());
        command.env("KUBECONFIG", self.kubeconfig());
        command
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.home.path().join("config")
    }

    /// Changes the kubeconfig.
    pub(crate) fn edit(&self, change: impl FnOnce(&mut Value)) -> Outcome {
        let mut config = serde_json::from_slice(&std::fs::read(self.kubeconfig())?)?;
        change(&mut config);
        Ok(std::fs::write(self.kubeconfig(), config.to_string())?)
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Outcome<CommandOutput> {
        run(&mut self.command(arguments))
    }

    /// The pods that `status -o json` shows.
    pub(crate) fn pods(&self, code: i32) -> Outcome<Vec<Value>> {
        let said = self.run(&["status", "-n", "shop", "-o", "json"])?.expect(code)?.json()?;
        said["pods"].as_array().cloned().context("pods")
    }

    /// How often a path was requested.
    pub(crate) fn asked(&self, path: &str) -> usize {
        self.server.asked().iter().filter(|asked| asked.path() == path).count()
    }
}

pub(crate) fn pod(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "shop", "uid": name },
        "spec": { "nodeName": "node-1", "containers": [{ "name": "istio-proxy" }] },
        "status": {
            "phase": "Running",
            "conditions": [{ "type": "Ready", "status": "True" }],
            "containerStatuses": [{
                "name": "istio-proxy", "image": "", "imageID": "", "ready": true,
                "restartCount": 0, "state": { "running": {} },
            }],
        },
    })
}

/// A pod that is deleted, with the grace period's end in this year.
pub(crate) fn deleted(name: &str, year: &str) -> Value {
    let mut pod = pod(name);
    pod["metadata"]["deletionTimestamp"] = json!(format!("{year}-01-01T00:00:00Z"));
    pod
}

pub(crate) fn list(pods: &[Value], next: &str) -> Answer {
    let list = json!({
        "kind": "PodList", "apiVersion": "v1", "metadata": { "continue": next }, "items": pods,
    });
    Answer::new(200).with("content-type", "application/json").body(list.to_string())
}

/// An answer of the API server itself.
pub(crate) fn status(code: u16, reason: &str, message: &str) -> Answer {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": message, "metadata": {},
    });
    Answer::new(code).with("content-type", "application/json").body(body.to_string())
}

/// Whether a request looks up a pod of this name.
pub(crate) fn is_look_up(asked: &Asked, name: &str) -> bool {
    asked.path() == LIST && asked.target.contains(&format!("metadata.name%3D{name}"))
}

pub(crate) fn statistics(pod: &str) -> String {
    format!("{LIST}/{pod}:15020/proxy/stats/prometheus")
}
