//! The options that choose a cluster and a user.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The cluster and the user of all requests: kubectl's options with the same names.
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
    pub as_user: Option<String>,
    pub as_groups: Vec<String>,
    /// The time limit for one request, and for the credential program; zero means no limit.
    pub request_timeout: Option<Duration>,
    /// The command that runs the credential program and ends it with this process.
    pub guard: Vec<OsString>,
}
