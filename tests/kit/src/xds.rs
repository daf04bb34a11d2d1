//! Configuration that changes at run time: files replaced by rename, and Envoy's verdict on every
//! new version.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bootstrap::Listener;
use crate::envoy::Envoy;
use crate::wait::{PATIENCE, wait_for};
use crate::{Context as _, Outcome, bail, ensure};

const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
const FILTER: &str = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig";
const LISTENERS: &str = "lds";
const LISTENERS_STATS: &str = "listener_manager.lds";

/// Envoy's verdict on a new version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accepted,
    Rejected,
}

impl Verdict {
    pub fn accepted(self) -> Outcome {
        match self {
            Self::Accepted => Ok(()),
            Self::Rejected => bail!("Envoy rejected the new configuration"),
        }
    }
}

/// Files that Envoy watches, each alone in its folder: a rename makes Envoy reread every file that
/// it watches in that folder. Write the first versions before Envoy starts.
pub struct Xds {
    folder: TempDir,
    version: AtomicU64,
}

impl Xds {
    pub fn new() -> Outcome<Self> {
        let folder = tempfile::Builder::new()
            .prefix("xds-")
            .tempdir()
            .context("a folder for dynamic configuration")?;
        Ok(Self { folder, version: AtomicU64::new(1) })
    }

    pub(crate) fn listeners_source(&self) -> Value {
        self.source(LISTENERS)
    }

    pub fn filter_source(&self, name: &str) -> Value {
        self.source(&ecds(name))
    }

    /// Replaces all listeners by these.
    pub fn write_listeners(&self, listeners: &[Listener]) -> Outcome {
        let resource = |listener: &Listener| {
            let mut value = listener.clone().build();
            value["@type"] = json!(LISTENER);
            value
        };
        self.write(LISTENERS, listeners.iter().map(resource).collect())
    }

    /// The configuration of one discovered filter, with its `@type`.
    pub fn write_filter(&self, name: &str, typed_config: &Value) -> Outcome {
        self.write(
            &ecds(name),
            vec![json!({ "@type": FILTER, "name": name, "typed_config": typed_config })],
        )
    }

    /// Writes and waits for the verdict.
    pub async fn replace_listeners(
        &self,
        envoy: &Envoy,
        listeners: &[Listener],
    ) -> Outcome<Verdict> {
        verdict(envoy, LISTENERS_STATS, || self.write_listeners(listeners)).await
    }

    /// Writes and waits for the verdict.
    pub async fn replace_filter(
        &self,
        envoy: &Envoy,
        name: &str,
        typed_config: &Value,
    ) -> Outcome<Verdict> {
        let stats = format!("extension_config_discovery.http_filter.{name}");
        verdict(envoy, &stats, || self.write_filter(name, typed_config)).await
    }

    fn source(&self, resource: &str) -> Value {
        let watched = json!({ "path": self.folder.path().join(resource).display().to_string() });
        let path = json!({
            "path": self.path(resource).display().to_string(), "watched_directory": watched,
        });
        json!({ "path_config_source": path, "resource_api_version": "V3" })
    }

    fn path(&self, resource: &str) -> PathBuf {
        self.folder.path().join(resource).join("resources.json")
    }

    fn write(&self, resource: &str, resources: Vec<Value>) -> Outcome {
        let version = self.version.fetch_add(1, Ordering::Relaxed).to_string();
        let fresh = self.folder.path().join(format!("{resource}.{version}"));
        let content = json!({ "version_info": version, "resources": resources });
        fs::create_dir_all(self.folder.path().join(resource))
            .with_context(|| format!("a folder for {resource}"))?;
        fs::write(&fresh, content.to_string()).with_context(|| format!("writing {resource}"))?;
        fs::rename(&fresh, self.path(resource)).with_context(|| format!("replacing {resource}"))
    }
}

/// Envoy's verdict on the version that `write` writes.
async fn verdict(envoy: &Envoy, stats: &str, write: impl FnOnce() -> Outcome) -> Outcome<Verdict> {
    let before = attempts(envoy, stats).await?;
    write()?;
    let what = format!("a verdict on a new version of {stats}");
    let waited = wait_for(PATIENCE, &what, async || {
        let now = attempts(envoy, stats).await?;
        let is_new = now[0] > before[0] || now[1] > before[1];
        ensure!(is_new, "{} accepted and {} rejected, as before", now[0], now[1]);
        Ok(if now[1] > before[1] { Verdict::Rejected } else { Verdict::Accepted })
    });
    waited.await.with_context(|| envoy.tail())
}

/// The numbers of versions that Envoy has accepted and rejected so far.
async fn attempts(envoy: &Envoy, stats: &str) -> Outcome<[u64; 2]> {
    let accepted = envoy.stat(&format!("{stats}.update_success")).await?.unwrap_or(0);
    let rejected = envoy.stat(&format!("{stats}.update_rejected")).await?.unwrap_or(0);
    Ok([accepted, rejected])
}

fn ecds(name: &str) -> String {
    format!("ecds-{name}")
}
