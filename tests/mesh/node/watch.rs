//! A watch of all objects of a kind: their state now, and the time at which each was deleted.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use crate::cluster::Cluster;
use kit::locked;
use kit::prelude::*;
use kit::process::Process;

/// A running `kubectl get --watch`. Dropping it ends the process.
pub(crate) struct Watch {
    _kubectl: Process,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    now: BTreeMap<String, Value>,
    /// Deleted objects with their last state.
    gone: BTreeMap<String, (Instant, Value)>,
}

impl Watch {
    /// Starts a watch of a kind, such as `pods`, in all namespaces.
    pub(crate) fn start(cluster: &Cluster, kind: &str) -> Outcome<Self> {
        let watch = ["--watch", "--output-watch-events", "--output=json"];
        let get = [&["get", kind, "--all-namespaces"], &watch[..]].concat();
        let mut command = cluster.kubectl_command(&get)?;
        let (reader, writer) = std::io::pipe()?;
        command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::null());
        let kubectl = Process::spawn(command)?;
        let seen = Arc::new(Mutex::new(Seen::default()));
        let told = Arc::clone(&seen);
        thread::spawn(move || {
            for event in
                serde_json::Deserializer::from_reader(BufReader::new(reader)).into_iter::<Value>()
            {
                let Ok(event) = event else { return }; // kubectl has ended
                locked(&told).note(&event);
            }
        });
        Ok(Self { _kubectl: kubectl, seen })
    }

    /// The results of `look` for the objects of a namespace, without `None`.
    pub(crate) fn find<T>(&self, namespace: &str, look: impl Fn(&Value) -> Option<T>) -> Vec<T> {
        let prefix = format!("{namespace}/");
        let seen = locked(&self.seen);
        seen.now
            .iter()
            .filter(|(name, _)| name.starts_with(&prefix))
            .filter_map(|(_, object)| look(object))
            .collect()
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Value> {
        locked(&self.seen).now.get(&format!("{namespace}/{name}")).cloned()
    }

    /// Waits until an object is deleted; returns the time and its last state.
    pub(crate) async fn gone(&self, namespace: &str, name: &str) -> Outcome<(Instant, Value)> {
        let name = format!("{namespace}/{name}");
        let look = async || locked(&self.seen).gone.get(&name).cloned().context("still there");
        wait_for(PATIENCE, &format!("{name} to be gone"), look).await
    }
}

impl Seen {
    fn note(&mut self, event: &Value) {
        let object = &event["object"];
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let name = format!("{}/{}", text("namespace"), text("name"));
        if event["type"] == "DELETED" {
            self.now.remove(&name);
            self.gone.insert(name, (Instant::now(), object.clone()));
        } else {
            self.now.insert(name, object.clone());
        }
    }
}
