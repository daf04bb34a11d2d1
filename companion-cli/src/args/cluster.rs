//! The options of the commands that ask the Kubernetes API.

use clap::Args;
use laststream_base::env_vars;
use laststream_fleet::{Access, Cluster, FleetError};

use crate::guard;

/// The same names and meanings as in kubectl.
#[derive(Debug, Default, PartialEq, Args)]
pub(crate) struct ClusterArgs {
    #[command(flatten)]
    pub(crate) access: Access,
    /// A cluster of the kubeconfig, instead of the context's.
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    cluster: Option<String>,
}

impl ClusterArgs {
    /// The cluster. No request has been sent to it.
    pub(crate) async fn connect(&self) -> Result<Cluster, FleetError> {
        connect(&self.access, self.cluster.clone()).await
    }
}

/// The cluster with this name in the kubeconfig, or the context's. No request has been sent to it.
pub(crate) async fn connect(
    access: &Access,
    cluster: Option<String>,
) -> Result<Cluster, FleetError> {
    let access = Access { cluster, guard: guard::prefix(), ..access.clone() };
    Cluster::connect(&access, &env_vars::of_process).await
}
