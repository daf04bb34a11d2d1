//! The options of the commands that ask the Kubernetes API, named as in kubectl.

use std::path::PathBuf;

use clap::Args;
use laststream_base::env_vars;
use laststream_base::names;
use laststream_base::time_span::TimeSpan;
use laststream_fleet::{Access, Cluster, FleetError};

use crate::commands::guarded;

/// The same names and meanings as in kubectl.
#[derive(Debug, Args)]
pub(super) struct ClusterArgs {
    #[command(flatten)]
    pub(super) context: ContextArgs,
    /// A cluster of the kubeconfig, instead of the context's.
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    cluster: Option<String>,
}

/// The same without the option for the cluster itself.
#[derive(Debug, Args)]
pub(super) struct ContextArgs {
    /// A namespace instead of the context's.
    #[arg(short, long, value_name = "NAME", value_parser = namespace, help_heading = "Cluster")]
    pub(super) namespace: Option<String>,
    /// The kubeconfig file, instead of KUBECONFIG and `~/.kube/config`.
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig, instead of its current one.
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    context: Option<String>,
    /// A user of the kubeconfig, instead of the context's.
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    user: Option<String>,
    /// A user to impersonate.
    #[arg(long = "as", value_name = "USER", help_heading = "Cluster")]
    as_user: Option<String>,
    /// A group to impersonate; can be repeated.
    #[arg(long = "as-group", value_name = "GROUP", requires = "as_user", help_heading = "Cluster")]
    as_groups: Vec<String>,
    /// How long one request to the API server may take; `0s` means no limit [default: 30s]
    #[arg(long, value_name = "TIME", help_heading = "Cluster")]
    request_timeout: Option<TimeSpan>,
}

fn namespace(text: &str) -> Result<String, &'static str> {
    names::label(text).map(|()| text.to_owned())
}

/// Parses the name of a node.
pub(super) fn node(text: &str) -> Result<String, &'static str> {
    names::subdomain(text).map(|()| text.to_owned())
}

impl ClusterArgs {
    /// Whether an option is given: then the command is for the cluster.
    pub(super) fn are_given(&self) -> bool {
        self.context.are_given() || self.cluster.is_some()
    }

    /// The cluster. No request has been sent to it.
    pub(super) async fn connect(&self) -> Result<Cluster, FleetError> {
        self.context.connect(self.cluster.clone()).await
    }
}

impl ContextArgs {
    /// Whether an option is given.
    pub(super) fn are_given(&self) -> bool {
        self.namespace.is_some()
            || self.kubeconfig.is_some()
            || self.context.is_some()
            || self.user.is_some()
            || self.as_user.is_some()
            || self.request_timeout.is_some()
    }

    /// The cluster with this name in the kubeconfig, or the context's. No request has been sent to
    /// it.
    pub(super) async fn connect(&self, cluster: Option<String>) -> Result<Cluster, FleetError> {
        let access = Access {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            cluster,
            user: self.user.clone(),
            namespace: self.namespace.clone(),
            as_user: self.as_user.clone(),
            as_groups: self.as_groups.clone(),
            request_timeout: self.request_timeout.map(TimeSpan::duration),
            guard: guarded::prefix(),
        };
        Cluster::connect(&access, &env_vars::of_process).await
    }
}
