//! The options that choose a cluster and a user, named as in kubectl.

use std::ffi::OsString;
use std::path::PathBuf;

#[cfg(feature = "clap")]
use laststream_base::names;
use laststream_base::time_span::TimeSpan;

/// The cluster and the user of all requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct Access {
    /// A namespace instead of the context's.
    #[cfg_attr(
        feature = "clap",
        arg(short, long, value_name = "NAME", value_parser = names::label, help_heading = "Cluster")
    )]
    pub namespace: Option<String>,
    /// The kubeconfig file, instead of KUBECONFIG and `~/.kube/config`.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", help_heading = "Cluster"))]
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig, instead of its current one.
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", help_heading = "Cluster"))]
    pub context: Option<String>,
    /// A user of the kubeconfig, instead of the context's.
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", help_heading = "Cluster"))]
    pub user: Option<String>,
    /// A user to impersonate.
    #[cfg_attr(feature = "clap", arg(long = "as", value_name = "USER", help_heading = "Cluster"))]
    pub as_user: Option<String>,
    /// A group to impersonate; can be repeated.
    #[cfg_attr(
        feature = "clap",
        arg(
            long = "as-group",
            value_name = "GROUP",
            requires = "as_user",
            help_heading = "Cluster"
        )
    )]
    pub as_groups: Vec<String>,
    /// How long one request to the API server may take; `0s` means no limit [default: 30s]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", help_heading = "Cluster"))]
    pub request_timeout: Option<TimeSpan>,
    // Not an option here, because `--cluster` of `lint` needs no name.
    #[cfg_attr(feature = "clap", arg(skip))]
    pub cluster: Option<String>,
    // The command that runs the credential program and ends it with this process.
    #[cfg_attr(feature = "clap", arg(skip))]
    pub guard: Vec<OsString>,
}
