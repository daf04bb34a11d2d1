//! Objects of the API server: lists, page by page, and one object.

use kube::api::{GetParams, ListParams, ObjectList, Request};
use serde_json::Value;

use crate::api::call::Call;
use crate::api::client::Cluster;
use crate::api::error::FleetError;
use crate::api::kinds::ObjectKind;

/// The number of objects in one answer. Larger answers cost the API server memory, smaller ones
/// cost round trips.
const PAGE: u32 = 500;

impl Cluster {
    /// Requests a list page by page, and returns the result of `keep` for each object.
    ///
    /// # Errors
    /// The API server does not list them.
    pub(crate) async fn pages<K: Clone, T>(
        &self,
        call: &Call,
        params: ListParams,
        page: impl AsyncFn(&ListParams) -> Result<ObjectList<K>, kube::Error>,
        mut keep: impl FnMut(K) -> T,
    ) -> Result<Vec<T>, FleetError> {
        let mut params = params.limit(PAGE);
        let mut results = Vec::new();
        let mut begun_again = false;
        loop {
            match self.repeat(call, || page(&params)).await {
                Ok(page) => {
                    results.extend(page.items.into_iter().map(&mut keep));
                    params.continue_token = page.metadata.continue_.filter(|next| !next.is_empty());
                    if params.continue_token.is_none() {
                        return Ok(results);
                    }
                }
                // The list took so long that its continue token has expired.
                Err(FleetError::Api { status: 410, .. }) if !begun_again => {
                    begun_again = true;
                    params.continue_token = None;
                    results.clear();
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The result of `keep` for each object of a kind.
    pub(crate) async fn values<T>(
        &self,
        call: Call,
        kind: ObjectKind,
        namespace: Option<&str>,
        params: ListParams,
        keep: impl FnMut(Value) -> T,
    ) -> Result<Vec<T>, FleetError> {
        let call = namespace.into_iter().fold(call, Call::within);
        let (client, path) = (self.client(), Request::new(kind.path(namespace)));
        let page = async |params: &ListParams| -> Result<ObjectList<Value>, kube::Error> {
            let request = path.list(params).map_err(kube::Error::BuildRequest)?;
            client.request(request).await
        };
        self.pages(&call, params, page, keep).await
    }

    /// One object. A kind that the cluster does not have has no objects: for it the API server
    /// answers with a page instead of an object.
    pub(crate) async fn read(
        &self,
        call: &Call,
        kind: ObjectKind,
        namespace: &str,
        name: &str,
    ) -> Result<Value, FleetError> {
        let (client, path) = (self.client(), Request::new(kind.path(Some(namespace))));
        let answer = self.repeat(call, || async {
            let request = path.get(name, &GetParams::default());
            client.request(request.map_err(kube::Error::BuildRequest)?).await
        });
        match answer.await {
            Err(FleetError::Api { status: 404, .. }) => Err(FleetError::NotFound(call.object())),
            answer => answer,
        }
    }
}
