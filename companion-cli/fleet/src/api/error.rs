//! Errors of the kubeconfig and of the Kubernetes API. Each text says what to do.

use std::error::Error;
use std::path::{Path, PathBuf};

use http::Uri;
use kube::client::AuthError;
use kube::config::{InClusterError, KubeconfigError};

use crate::api::call::Call;
use crate::api::secretless;
use laststream_base::causes::with_sources;
use laststream_base::parse_error::ParseError;
use laststream_base::visible::brief;

/// The ClusterRoles of the commands for many pods.
const RIGHTS: &str =
    concat!(env!("CARGO_PKG_REPOSITORY"), "/tree/main/envoyfilter-manifests/rights");

/// Why a cluster cannot be asked, or refuses a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    #[error(
        "no kubeconfig: `{}` does not exist, and this is not a pod of a cluster; name a file with \
         `--kubeconfig` or the variable KUBECONFIG", .0.display()
    )]
    NoKubeconfig(PathBuf),
    #[error(
        "the service account of this pod cannot be used: {0}; mount its token \
         (`automountServiceAccountToken`), or name a kubeconfig with `--kubeconfig`"
    )]
    ServiceAccount(String),
    #[error("the kubeconfig cannot be used: {0}")]
    Kubeconfig(String),
    #[error("the proxy for the API server cannot be used: {0}")]
    Proxy(String),
    #[error("the kubeconfig has no context `{name}`; it has {known}: choose with `--context`")]
    NoContext { name: String, known: String },
    #[error("the kubeconfig names no current context; it has {0}: choose with `--context`")]
    NoCurrentContext(String),
    #[error("the kubeconfig has no cluster `{0}`: choose with `--cluster` or correct the file")]
    NoCluster(String),
    #[error(
        "cannot get credentials from the kubeconfig: {0}; log in again, then try `kubectl get pods`"
    )]
    Credentials(String),
    #[error(
        "the API server at {0} does not accept the credentials (401): they are wrong or have \
         expired; log in again, then try `kubectl get pods`"
    )]
    Unauthorized(String),
    #[error(
        "no right to {call}: bind the ClusterRole `{role}` of {RIGHTS}, or ask as another user \
         with `--as` ({message})", role = .call.role()
    )]
    Forbidden { call: Box<Call>, message: String },
    #[error(
        "the API server at {server} cannot be reached: {why}; check the context, the network and \
         the proxy variables"
    )]
    Unreachable { server: String, why: String },
    #[error(
        "the answer of {server} to {call} cannot be read: {why}; is it the address of an API \
         server?"
    )]
    Unreadable { server: String, call: Box<Call>, why: String },
    #[error("{0} does not exist")]
    NotFound(String),
    #[error("the API server refuses to {call}: status {status}, {message}")]
    Api { call: Box<Call>, status: u16, message: String },
    #[error("its selector: {0}")]
    Selector(String),
    #[error("the Rollout has no selector: does the controller of Argo Rollouts run?")]
    NoSelector,
    /// Why nothing was listed that a command could be for.
    #[error("{0}")]
    NothingFound(String),
    /// Why a pod has no gate that could be asked.
    #[error("{0}")]
    NoProxy(&'static str),
    #[error("the pod was deleted after it was listed")]
    Deleted,
    #[error("port {port} does not answer within {seconds} s")]
    Silent { port: u16, seconds: u64 },
    /// How the connection to a pod's port failed.
    #[error("{0}")]
    Connection(String),
    /// What is wrong with the answer of a pod's gate.
    #[error("{0}")]
    Gate(String),
    /// What is wrong with the answer of a pod's port for statistics.
    #[error("{0}")]
    Statistics(String),
    /// The asynchronous runtime of this process failed.
    #[error("{0}")]
    Runtime(String),
}

impl FleetError {
    /// Whether no other request to this API server can succeed.
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::NoKubeconfig(_)
                | Self::ServiceAccount(_)
                | Self::Kubeconfig(_)
                | Self::Proxy(_)
                | Self::NoContext { .. }
                | Self::NoCurrentContext(_)
                | Self::NoCluster(_)
                | Self::Credentials(_)
                | Self::Unauthorized(_)
                | Self::Unreachable { .. }
                | Self::Unreadable { .. }
        )
    }

    /// Whether a command that watches must end. An API server that has answered before may only be
    /// restarting.
    pub fn ends_watch(&self, has_answered: bool) -> bool {
        self.is_final() && !(has_answered && self.may_pass())
    }

    /// Whether the API server may answer again soon: it is restarting or overloaded.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Api { status, .. } => is_temporary(*status),
            _ => false,
        }
    }

    /// Whether the error concerns all pods. A connection that breaks says nothing about the other
    /// pods.
    pub(crate) fn concerns_all(&self) -> bool {
        matches!(self, Self::Forbidden { .. } | Self::Unauthorized(_) | Self::Credentials(_))
    }

    /// The error for a column of a table. An error that concerns all pods is also reported once in
    /// full.
    pub(crate) fn short(&self) -> String {
        brief(&match self {
            Self::Api { status: status @ 400..500, call, .. } if call.is_on("pods/proxy") => {
                format!("status {status}: is this the port with Envoy's statistics?")
            }
            Self::Api { message, .. } => {
                // "error trying to reach service: dial tcp 10.0.0.1:15020: connect: refused"
                message.trim_start_matches("error trying to reach service: ").to_owned()
            }
            Self::NotFound(_) => "the server on the pod's port answered 404".to_owned(),
            Self::Forbidden { call, .. } => format!("no right to {call}"),
            error => error.to_string(),
        })
    }

    pub(crate) fn of(error: &kube::Error, call: &Call, server: &str) -> Self {
        match error {
            kube::Error::Api(status) if is_own(status) => {
                Self::of_status(status.code, &status.message, call, server)
            }
            kube::Error::Api(status) => Self::Api {
                call: Box::new(call.clone()),
                status: status.code,
                message: status.message.clone(),
            },
            kube::Error::Auth(error) => Self::of_auth(error),
            kube::Error::SerdeError(error) => {
                Self::unreadable(call, server, ParseError::from(error).to_string())
            }
            kube::Error::FromUtf8(_) => Self::unreadable(call, server, "it is not UTF-8".into()),
            kube::Error::UpgradeConnection(error) => {
                Self::Connection(format!("cannot {call}: {}", with_sources(error)))
            }
            error => {
                // kube runs the credential program inside the service that sends requests, so the
                // program's error is among the sources.
                let mut source = error.source();
                while let Some(cause) = source {
                    if let Some(auth) = cause.downcast_ref::<AuthError>() {
                        return Self::of_auth(auth);
                    }
                    source = cause.source();
                }
                Self::Unreachable { server: server.to_owned(), why: last_cause(error) }
            }
        }
    }

    fn unreadable(call: &Call, server: &str, why: String) -> Self {
        Self::Unreadable { server: server.to_owned(), call: Box::new(call.clone()), why }
    }

    /// The error of credentials that cannot be used, or of the program that gives them.
    pub(crate) fn of_auth(error: &AuthError) -> Self {
        Self::Credentials(secretless::of_auth(error))
    }

    fn of_status(status: u16, message: &str, call: &Call, server: &str) -> Self {
        let (message, of) = (message.to_owned(), || Box::new(call.clone()));
        match status {
            401 => Self::Unauthorized(server.to_owned()),
            403 => Self::Forbidden { call: of(), message },
            404 => Self::NotFound(call.object()),
            _ => Self::Api { call: of(), status, message },
        }
    }

    /// The error for a process without a kubeconfig: it does not run in a pod, or the pod's service
    /// account gives no access. `usual` is the path of the missing kubeconfig.
    pub(crate) fn of_pod(error: &InClusterError, usual: PathBuf) -> Self {
        match error {
            InClusterError::ReadEnvironmentVariable(_) => Self::NoKubeconfig(usual),
            error => Self::ServiceAccount(secretless::of_pod(error)),
        }
    }

    /// The error for a proxy with a scheme that kube does not know.
    pub(crate) fn of_proxy(url: &Uri) -> Self {
        let url = without_login(url);
        Self::Proxy(format!("`{url}` does not begin with `http://`, `https://` or `socks5://`"))
    }

    /// The error of one file, which it names.
    pub(crate) fn of_file(error: &KubeconfigError, path: &Path) -> Self {
        let why = secretless::of_kubeconfig(error);
        Self::Kubeconfig(format!("`{}`: {why}", path.display()))
    }

    pub(crate) fn of_kubeconfig(error: &KubeconfigError, contexts: &[String]) -> Self {
        let context_names = || {
            let quoted: Vec<_> = contexts.iter().map(|name| format!("`{name}`")).collect();
            if quoted.is_empty() { "none".to_owned() } else { quoted.join(", ") }
        };
        match error {
            KubeconfigError::CurrentContextNotSet => Self::NoCurrentContext(context_names()),
            KubeconfigError::LoadContext(name) => {
                Self::NoContext { name: name.clone(), known: context_names() }
            }
            KubeconfigError::LoadClusterOfContext(name) => Self::NoCluster(name.clone()),
            KubeconfigError::ParseProxyUrl(error) => Self::Proxy(format!(
                "its address: {error}; it is in `proxy-url` of the kubeconfig, or in the \
                 variable HTTPS_PROXY"
            )),
            KubeconfigError::ParseNoProxy(error) => Self::Proxy(format!(
                "the variable NO_PROXY: {}; write hosts, addresses and networks, with one comma \
                 between two",
                with_sources(error)
            )),
            error => Self::Kubeconfig(secretless::of_kubeconfig(error)),
        }
    }
}

/// The last cause of an error that is one of the connection. The errors around it only name the
/// layers of the client.
fn last_cause(error: &dyn Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    let text = last.to_string();
    let text = text.split(" (os error ").next().unwrap_or_default();
    match text {
        "Connection refused" => "no program listens there".to_owned(),
        text => text.to_owned(),
    }
}

/// An address to print: without user and password, and without a slash at the end.
pub(crate) fn without_login(url: &Uri) -> String {
    let text = url.to_string();
    let login = url.authority().and_then(|authority| authority.as_str().rsplit_once('@'));
    let text = match login {
        Some((login, _)) => text.replacen(&format!("{login}@"), "", 1),
        None => text,
    };
    text.trim_end_matches('/').to_owned()
}

/// Whether the status means that the API server is overloaded or restarting, not that it refuses.
pub(crate) fn is_temporary(status: u16) -> bool {
    matches!(status, 429 | 500 | 502..=504)
}

/// Whether the status comes from the API server itself, not from a pod behind its proxy.
fn is_own(status: &kube::core::Status) -> bool {
    matches!(status.reason.as_str(), "Forbidden" | "Unauthorized" | "NotFound")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> Call {
        Call::new("list", "pods").within("shop")
    }

    #[test]
    fn overload_and_restarts_are_temporary_and_refusals_are_not() {
        let passes = |status| FleetError::of_status(status, "", &call(), "s").may_pass();
        assert!([429, 500, 502, 503, 504].into_iter().all(passes));
        assert!(![400, 401, 403, 404, 409, 410, 422, 501].into_iter().any(passes));
        let away = FleetError::Unreachable { server: String::new(), why: String::new() };
        assert!(away.may_pass());
        assert!(away.ends_watch(false) && !away.ends_watch(true));
        let refused = FleetError::of_status(401, "", &call(), "s");
        assert!(refused.ends_watch(true));
    }

    #[test]
    fn a_pod_without_a_token_gets_an_error_about_its_service_account() {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        let error = InClusterError::ReadDefaultNamespace(missing);
        let text = FleetError::of_pod(&error, PathBuf::from(".kube/config")).to_string();
        assert!(text.starts_with("the service account of this pod cannot be used: "), "{text}");
        assert!(text.contains("entity not found; mount its token"), "{text}");
    }
}
