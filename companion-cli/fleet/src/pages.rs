//! Lists of the API server, page by page.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{ListParams, ObjectList};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::call::Call;
use super::client::Cluster;
use super::error::FleetError;

/// The number of objects in one answer. Larger answers cost the API server memory, smaller ones
/// cost round trips.
const PAGE: u32 = 500;

impl Cluster {
    /// Lists objects in all namespaces or in the cluster's own, and returns the result of `keep`
    /// for each.
    pub(super) async fn list<K, T>(
        &self,
        call: Call,
        everywhere: bool,
        params: ListParams,
        keep: impl Fn(&K) -> T,
    ) -> Result<Vec<T>, FleetError>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + DeserializeOwned + Debug,
    {
        let (objects, call): (Api<K>, _) = if everywhere {
            (Api::all(self.client()), call)
        } else {
            (Api::namespaced(self.client(), self.namespace()), call.within(self.namespace()))
        };
        let page = async |params: &ListParams| objects.list(params).await;
        self.pages(&call, params, page, |object| keep(&object)).await
    }

    /// Requests a list page by page, and returns the result of `keep` for each object.
    ///
    /// # Errors
    /// The API server does not list them.
    pub(super) async fn pages<K: Clone, T>(
        &self,
        call: &Call,
        params: ListParams,
        page: impl AsyncFn(&ListParams) -> Result<ObjectList<K>, kube::Error>,
        mut keep: impl FnMut(K) -> T,
    ) -> Result<Vec<T>, FleetError> {
        let mut params = params.limit(PAGE);
        let mut kept = Vec::new();
        let mut begun_again = false;
        loop {
            match self.repeat(call, || page(&params)).await {
                Ok(page) => {
                    kept.extend(page.items.into_iter().map(&mut keep));
                    params.continue_token = page.metadata.continue_.filter(|next| !next.is_empty());
                    if params.continue_token.is_none() {
                        return Ok(kept);
                    }
                }
                // The list took so long that its continue token has expired.
                Err(FleetError::Api { status: 410, .. }) if !begun_again => {
                    begun_again = true;
                    params.continue_token = None;
                    kept.clear();
                }
                Err(error) => return Err(error),
            }
        }
    }
}
