//! A cluster for Envoy's own admin interface. Its port is known only once Envoy runs, so its
//! endpoints come from a file that is written then.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::admin::Admin;
use crate::wait::{PATIENCE, wait_for};
use crate::{Context as _, Outcome, ensure};

const PLACEHOLDER: &str = "@admin-endpoints@";

/// The cluster, under the name that the configuration needs, such as `prometheus_stats`.
pub fn admin_cluster(name: &str) -> Value {
    let path = json!({ "path": PLACEHOLDER });
    let source = json!({ "path_config_source": path, "resource_api_version": "V3" });
    json!({
        "name": name, "type": "EDS",
        "eds_cluster_config": { "service_name": "admin", "eds_config": source },
    })
}

pub struct AdminCluster {
    file: PathBuf,
    clusters: Vec<String>,
}

impl AdminCluster {
    pub fn prepare(config: &mut Value, folder: &Path) -> Outcome<Self> {
        let file = folder.join("admin-endpoints.json");
        let mut clusters = Vec::new();
        for cluster in config["static_resources"]["clusters"].as_array_mut().into_iter().flatten() {
            let name = cluster["name"].as_str().unwrap_or_default().to_owned();
            if let Some(path) =
                cluster.pointer_mut("/eds_cluster_config/eds_config/path_config_source/path")
                && *path == PLACEHOLDER
            {
                *path = json!(file.display().to_string());
                clusters.push(name);
            }
        }
        if !clusters.is_empty() {
            write(&file, None)?;
        }
        Ok(Self { file, clusters })
    }

    /// Writes Envoy's own address into the file, and waits until the clusters have it.
    pub async fn publish(self, admin: Admin) -> Outcome {
        if self.clusters.is_empty() {
            return Ok(());
        }
        write(&self.file, Some(admin.0))?;
        wait_for(PATIENCE, "the admin clusters' endpoints", async || {
            let clusters = admin.get("/clusters").await?.text();
            for name in &self.clusters {
                ensure!(
                    clusters.contains(&format!("{name}::{}::", admin.0)),
                    "cluster {name} has no endpoint"
                );
            }
            Ok(())
        })
        .await
    }
}

/// Replaces the file by a rename, because Envoy watches for renames.
fn write(file: &Path, address: Option<SocketAddr>) -> Outcome {
    let endpoint = |address: SocketAddr| {
        let socket = json!({ "address": address.ip().to_string(), "port_value": address.port() });
        json!({ "lb_endpoints": [{ "endpoint": { "address": { "socket_address": socket } } }] })
    };
    let endpoints: Vec<Value> = address.into_iter().map(endpoint).collect();
    let kind = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
    let version = if address.is_some() { "2" } else { "1" };
    let resources = [json!({ "@type": kind, "cluster_name": "admin", "endpoints": endpoints })];
    let fresh = file.with_extension("new");
    fs::write(&fresh, json!({ "version_info": version, "resources": resources }).to_string())
        .context("writing endpoints")?;
    fs::rename(&fresh, file).context("replacing endpoints")
}
