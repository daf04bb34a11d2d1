//! The options that choose a cluster and a user.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Which cluster, and as which user; the options of kubectl with the same names.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// A file instead of KUBECONFIG and `~/.kube/config`.
    pub kubeconfig: Option<PathBuf>,
    /// A context of the file instead of the current one.
    pub context: Option<String>,
    /// A cluster of the file instead of the context's.
    pub cluster: Option<String>,
    /// A user of the file instead of the context's.
    pub user: Option<String>,
    /// A namespace instead of the context's.
    pub namespace: Option<String>,
    /// The user to impersonate.
    pub as_user: Option<String>,
    /// The groups to impersonate.
    pub as_groups: Vec<String>,
    /// How long one request may take.
    pub request_timeout: Option<Duration>,
    /// What is put before the program that gives credentials, so that it ends with this process.
    pub guard: Vec<OsString>,
}
