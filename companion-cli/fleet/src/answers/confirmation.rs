//! Asks the API server whether an error that came through its proxy is its own, because a pod can
//! send an answer that looks the same.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, PostParams};

use crate::api::call::Call;
use crate::api::client::Cluster;
use crate::api::error::FleetError;
use crate::pods::facts::PodFacts;

impl Cluster {
    /// Whether the API server says that the pod no longer exists.
    pub(crate) async fn has_gone(&self, pod: &PodFacts) -> bool {
        self.is_there(pod).await.is_ok_and(|is_there| !is_there)
    }

    /// Whether the pod exists. Another pod with its name is not the same.
    pub(crate) async fn is_there(&self, pod: &PodFacts) -> Result<bool, FleetError> {
        let call = Call::new("list", "pods").within(&pod.namespace);
        let pods: Api<Pod> = Api::namespaced(self.client(), &pod.namespace);
        let params = ListParams::default().fields(&format!("metadata.name={}", pod.name));
        let list = self.repeat(&call, || pods.list_metadata(&params)).await?;
        let is_it = |uid: Option<&String>| uid.map(String::as_str).unwrap_or_default() == pod.uid;
        Ok(list.items.iter().any(|item| is_it(item.metadata.uid.as_ref())))
    }

    /// Whether a refusal of the statistics concerns all pods. `is_alone` means that no pod has
    /// answered; the refusal then counts for all pods if the API server cannot be asked.
    pub(crate) async fn refuses(&self, pod: &PodFacts, error: &FleetError, is_alone: bool) -> bool {
        let is_allowed = match error {
            FleetError::Credentials(_) => return true, // no pod can cause this
            _ => self.allows_statistics(&pod.namespace).await,
        };
        match (is_allowed, error) {
            (Ok(is_allowed), FleetError::Forbidden { .. }) => !is_allowed,
            (Ok(_), _) => false,
            (Err(FleetError::Unauthorized(_) | FleetError::Credentials(_)), _) => true,
            (Err(_), _) => is_alone,
        }
    }

    /// Asks the API server with a SelfSubjectAccessReview, which every user may create.
    async fn allows_statistics(&self, namespace: &str) -> Result<bool, FleetError> {
        let text = |text: &str| Some(text.to_owned());
        let attributes = ResourceAttributes {
            namespace: text(namespace),
            verb: text("get"),
            resource: text("pods"),
            subresource: text("proxy"),
            ..ResourceAttributes::default()
        };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let call = Call::new("create", "selfsubjectaccessreviews");
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client());
        let params = PostParams::default();
        let review = self.repeat(&call, || reviews.create(&params, &review)).await?;
        Ok(review.status.is_some_and(|status| status.allowed))
    }
}
