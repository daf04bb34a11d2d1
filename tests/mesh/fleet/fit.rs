//! F9: `laststream assess --policy --cluster` on a real API server whose webhook denies what that
//! of AKS' Istio add-on denies by its documentation: fields in the overlay of a Gateway.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::certificates::Authority;
use kit::command::CommandOutput;
use kit::fake_server::{self, Answer, Asked, Service};
use kit::prelude::*;

use super::world::World;
use crate::cluster::Cluster;
use crate::seen::row;

const NAMESPACE: &str = "edge";
const WEBHOOK: &str = "gateway-overlay.aks.example.com";
/// A policy whose Gateway needs an overlay, and the same without one.
const POLICIES: [&str; 2] = ["image-volume", "gateway-api"];
const DENIED: [&str; 4] = ["lifecycle", "terminationGracePeriodSeconds", "volumes", "env"];

struct Webhook;

impl Service for Webhook {
    fn answer(&self, _: &Asked, body: &[u8]) -> Answer {
        let review: Value = serde_json::from_slice(body).unwrap_or_default();
        let overlay = review["request"]["object"]["data"]["deployment"].as_str().unwrap_or("");
        let has = |field: &&&str| overlay.contains(&format!("{field}:"));
        let reason =
            DENIED.iter().find(has).map(|field| format!("the field `{field}` is not allowed"));
        let answer = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": {
                "uid": review["request"]["uid"], "allowed": reason.is_none(),
                "status": { "message": reason },
            },
        });
        Answer::new(200).with("content-type", "application/json").body(answer.to_string())
    }
}

/// Starts the webhook, and has the API server ask it.
async fn webhook(cluster: &Cluster) -> Outcome {
    let authority = Authority::new()?;
    let config = Authority::server_config(&authority.server()?)?;
    let address = fake_server::serve(Some(config), Arc::new(Webhook))?;
    let bundle = STANDARD.encode(authority.pem());
    cluster
        .apply_all(&[json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": "overlays" },
            "webhooks": [{
                "name": WEBHOOK, "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": { "url": format!("https://{address}"), "caBundle": bundle },
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                    "operations": ["CREATE", "UPDATE"],
                }],
                "namespaceSelector": {
                    "matchLabels": { "kubernetes.io/metadata.name": NAMESPACE },
                },
            }],
        })])
        .await
}

async fn assess(cluster: &Cluster, policy: &str, options: &[&str]) -> Outcome<CommandOutput> {
    let file = kit::workspace().join(format!("envoyfilter-manifests/{policy}/policy.yaml"));
    let file = file.to_str().context("a path")?;
    cluster.laststream(&[&["assess", "--cluster", "--policy", file], options].concat()).await
}

pub(crate) async fn of_a_policy() -> Outcome {
    let cluster = &World::get().await?.cluster;
    for release in ["istio-1.31", "gateway-api-1.6"] {
        cluster.definitions(release).await?;
    }
    let [overlaid, plain] = POLICIES;
    assess(cluster, plain, &[]).await?.expect(1)?.stdout_contains("not in this cluster")?;
    cluster.namespace(NAMESPACE).await?;
    let said = assess(cluster, plain, &[]).await?.expect(0)?.stdout_contains("accepted")?;
    said.stderr_contains("no objects: ")?.stderr_contains("gateway.patch.yaml")?;
    webhook(cluster).await?;
    let denies = async || {
        let said = assess(cluster, overlaid, &[]).await?.expect(1)?;
        said.stdout_contains(&format!("denied by `{WEBHOOK}`: the field `"))
    };
    let said = wait_for(PATIENCE, "the webhook", denies).await?;
    said.stdout_contains("instead of ConfigMap: ")?.stdout_contains("`drain: {starts: agent}`")?;
    let json = assess(cluster, overlaid, &["-o", "json"]).await?.expect(1)?.json()?;
    let trials = json["trials"].as_array().context("trials")?;
    let is_of =
        |trial: &Value, kind| trial["object"].as_str().is_some_and(|text| text.starts_with(kind));
    let find = |kind| trials.iter().find(|trial| is_of(trial, kind));
    ensure_eq!(find("ConfigMap").context("the overlay")?["by"], WEBHOOK, "{json:#}");
    ensure_eq!(find("the pull secret").context("the secret")?["answer"], "missing", "{json:#}");
    ensure_eq!(find("EnvoyFilter").context("the filter")?["answer"], "accepted", "{json:#}");
    // This API server has the usual feature gates of its version.
    let volume = find("a pod with an image volume").context("the volume")?;
    ensure_eq!(volume["answer"], "missing", "{json:#}");
    assess(cluster, plain, &[]).await?.expect(0)?;
    let left = cluster.run(&["get", "envoyfilters,configmaps", "-n", NAMESPACE, "-o", "name"]);
    ensure!(!left.await?.contains("laststream"), "a dry run stores nothing");
    row(
        "F9",
        "a policy with an overlay, and a webhook that denies its fields as AKS' does",
        "it is named, and so is a missing image volume; without an overlay all is taken",
    );
    Ok(())
}
