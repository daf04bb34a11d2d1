//! Sends objects for a dry run, and reads the versions of the nodes and of Istio.

use http::Request;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::software::Software;
use super::verdict::{Trial, Verdict};
use crate::api::call::Call;
use crate::api::client::Cluster;
use crate::api::error::FleetError;
use crate::api::kinds::{CONFIG_MAPS, KINDS, ObjectKind, PODS};
use laststream_base::istio::ROOT_NAMESPACE;

/// The content type of a server-side apply; JSON is YAML, too.
const APPLY: &str = "application/apply-patch+yaml";

const NO_IMAGE_VOLUMES: &str = "its API server does not know image volumes, and would make an \
    empty folder of one: the feature gate `ImageVolume` is off";

impl Cluster {
    /// Asks the API server whether it would take an object.
    ///
    /// # Errors
    /// The API server cannot be asked.
    pub async fn try_object(&self, object: &Value) -> Result<Trial, FleetError> {
        Ok(self.dry_run(object).await?.0)
    }

    /// Also returns the object as it would be stored.
    async fn dry_run(&self, object: &Value) -> Result<(Trial, Value), FleetError> {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (api, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        let namespace = match text("/metadata/namespace") {
            "" => self.namespace(),
            namespace => namespace,
        };
        let trial = |verdict| {
            (Trial { object: format!("{kind} {namespace}/{name}"), verdict }, Value::Null)
        };
        let group = api.rsplit_once('/').map_or("", |(group, _)| group);
        let is_known = |known: &&ObjectKind| known.kind == kind && known.group == group;
        let Some(known) = KINDS.iter().chain([&CONFIG_MAPS, &PODS]).find(is_known) else {
            let why = "laststream does not know the path of this kind".to_owned();
            return Ok(trial(Verdict::Unknown { why }));
        };
        let path = format!("{}/{name}", known.path(Some(namespace)));
        let call = Call::new("patch", known.resource).within(namespace).named(name);
        let client = self.client();
        let answer = self.repeat(&call, || async {
            let request =
                Request::patch(format!("{path}?dryRun=All&fieldManager=laststream&force=true"))
                    .header("content-type", APPLY)
                    .body(object.to_string().into_bytes());
            client.request::<Value>(request.map_err(kube::Error::HttpError)?).await
        });
        match answer.await {
            Ok(stored) => Ok((trial(Verdict::Accepted).0, stored)),
            Err(FleetError::Forbidden { message, .. }) => {
                Ok(trial(Verdict::of_error(403, &message)))
            }
            Err(FleetError::Api { status, message, .. }) => {
                Ok(trial(Verdict::of_error(status, &message)))
            }
            Err(FleetError::NotFound(_)) => {
                let why = format!("it has no kind {kind} of {api}, or no namespace `{namespace}`");
                Ok(trial(Verdict::Missing { why }))
            }
            Err(error) => Err(error),
        }
    }

    /// Asks whether a pod may have an image as a volume. Where image volumes are off, the API
    /// server makes an empty folder of it.
    ///
    /// # Errors
    /// The API server cannot be asked.
    pub async fn try_image_volume(&self, namespace: &str) -> Result<Trial, FleetError> {
        let image = "registry.invalid/laststream:0";
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "laststream-trial", "namespace": namespace },
            "spec": {
                "securityContext": {
                    "runAsNonRoot": true, "runAsUser": 1337,
                    "seccompProfile": { "type": "RuntimeDefault" },
                },
                "containers": [{
                    "name": "proxy", "image": image,
                    "securityContext": {
                        "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] },
                    },
                    "volumeMounts": [{ "name": "module", "mountPath": "/module" }],
                }],
                "volumes": [{ "name": "module", "image": { "reference": image } }],
            },
        });
        let (Trial { verdict, .. }, stored) = self.dry_run(&pod).await?;
        let has_image = stored.pointer("/spec/volumes/0/image").is_some();
        let verdict = match verdict {
            Verdict::Accepted if !has_image => {
                Verdict::Missing { why: NO_IMAGE_VOLUMES.to_owned() }
            }
            verdict => verdict,
        };
        Ok(Trial { object: "a pod with an image volume".to_owned(), verdict })
    }

    /// Whether a secret is there. Its content is not read.
    ///
    /// # Errors
    /// The API server cannot be asked.
    pub async fn try_secret(&self, namespace: &str, name: &str) -> Result<Trial, FleetError> {
        let secrets = Api::<Secret>::namespaced(self.client(), namespace);
        let call = Call::new("get", "secrets").within(namespace).named(name);
        let verdict = match self.repeat(&call, || secrets.get_metadata(name)).await {
            Ok(_) => Verdict::Accepted,
            Err(FleetError::NotFound(_)) => {
                Verdict::Missing { why: format!("no Secret `{name}` in `{namespace}`") }
            }
            Err(error) if error.is_final() => return Err(error),
            Err(error) => Verdict::Unknown { why: error.to_string() },
        };
        Ok(Trial { object: format!("the pull secret {namespace}/{name}"), verdict })
    }

    /// The versions that matter to laststream. What may not be read is left out.
    ///
    /// # Errors
    /// The API server cannot be asked.
    pub async fn software(&self) -> Result<Software, FleetError> {
        let kubernetes = self.version().await;
        let nodes = Api::<Node>::all(self.client());
        let nodes = self.all_of("nodes", &nodes, ListParams::default()).await?;
        let istiods = Api::<Pod>::namespaced(self.client(), ROOT_NAMESPACE);
        let istiods =
            self.all_of("pods", &istiods, ListParams::default().labels("app=istiod")).await?;
        Ok(Software::of(kubernetes, nodes, istiods))
    }

    /// The objects of a list; none if it may not be read.
    async fn all_of<K>(
        &self,
        resource: &'static str,
        api: &Api<K>,
        params: ListParams,
    ) -> Result<Vec<K>, FleetError>
    where
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let call = Call::new("list", resource);
        match self.pages(&call, params, async |params| api.list(params).await, |item| item).await {
            Err(error) if !error.is_final() => Ok(Vec::new()),
            result => result,
        }
    }
}
