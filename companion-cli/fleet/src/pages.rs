//! Lists of the API server, page by page.

use kube::api::{ListParams, ObjectList};

use super::call::Call;
use super::client::Cluster;
use super::error::FleetError;

/// The number of objects in one answer. Larger answers cost the API server memory, smaller ones
/// cost round trips.
const PAGE: u32 = 500;

impl Cluster {
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
