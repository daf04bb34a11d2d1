//! The connection to a cluster, as kubectl finds it: kubeconfig, context, namespace, impersonation.
//! Requests are repeated a bounded number of times.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use kube::Client;
use kube::client::ClientBuilder;
use tower::util::MapResponseLayer;

use crate::api::access::Access;
use crate::api::call::Call;
use crate::api::error::{FleetError, is_temporary, without_login};
use crate::api::kubeconfig;
use crate::api::pause;
use crate::api::secretless;
use laststream_base::env_vars::{self, Lookup};
use laststream_base::names;
use laststream_base::time_span::TimeSpan;

/// The time limit for a connection to the API server, with name resolution and TLS handshake.
const CONNECT: Duration = Duration::from_secs(10);
/// The time limit for one request, without `--request-timeout`.
const REQUEST: Duration = Duration::from_secs(30);
/// The time limit for the credential program, without `--request-timeout`. A login in a browser
/// takes a while.
const LOGIN: Duration = Duration::from_secs(120);
/// The time limit for `--request-timeout 0`, which means no limit, as in kubectl.
const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// The number of attempts for a request that may succeed later.
const TRIES: u32 = 3;
/// The pause before the second attempt; it doubles before the third.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// A client of one cluster's API server.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    namespace: String,
    server: String,
    timeout: Duration,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Reads the kubeconfig. No request is sent yet.
    pub async fn connect(access: &Access, lookup: Lookup<'_>) -> Result<Self, FleetError> {
        // Fails only if a provider is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config = kubeconfig::config(access, lookup).await?;
        let limit = |usual| match access.request_timeout.map(TimeSpan::duration) {
            None => usual,
            Some(Duration::ZERO) => NO_LIMIT,
            Some(limit) => limit,
        };
        config.connect_timeout = Some(CONNECT);
        config.default_retry = false; // kube repeats a pod's 503 fifteen times, for 40 s
        if let Some(user) = &access.as_user {
            config.auth_info.impersonate = Some(user.clone());
        }
        if !access.as_groups.is_empty() {
            config.auth_info.impersonate_groups = Some(access.as_groups.clone());
        }
        if let Some(exec) = &mut config.auth_info.exec {
            let secrets = env_vars::SECRETS.map(str::to_owned);
            exec.drop_env.get_or_insert_default().extend(secrets);
            kubeconfig::guard(exec, &access.guard);
        }
        let server = without_login(&config.cluster_url);
        let of_context = Some(config.default_namespace.as_str()).filter(|name| !name.is_empty());
        let namespace = access.namespace.as_deref().or(of_context);
        let namespace = namespace.unwrap_or("default").to_owned();
        if let Err(why) = names::label(&namespace) {
            return Err(FleetError::Kubeconfig(format!("the namespace `{namespace}`: {why}")));
        }
        let client = client(config, limit(LOGIN)).await?;
        Ok(Self { client, namespace, server, timeout: limit(REQUEST) })
    }

    /// The kube client, for requests that this type has no method for.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The namespace that was asked for, else the context's, else `default`.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub fn server(&self) -> &str {
        &self.server
    }

    /// Sends a request within the time limit for one, and repeats it if it may succeed later.
    pub async fn repeat<T, F>(
        &self,
        call: &Call,
        mut request: impl FnMut() -> F,
    ) -> Result<T, FleetError>
    where
        F: Future<Output = Result<T, kube::Error>>,
    {
        let mut pause = FIRST_PAUSE;
        for _ in 1..TRIES {
            let answer = pause::with_header(request());
            let Ok((answer, header)) = tokio::time::timeout(self.timeout, answer).await else {
                return Err(self.silence());
            };
            match answer {
                Ok(answer) => return Ok(answer),
                Err(error) if !may_succeed_later(&error) => {
                    return Err(FleetError::of(&error, call, &self.server));
                }
                Err(error) => tokio::time::sleep(pause::after(&error, header, pause)).await,
            }
            pause *= 2;
        }
        self.once(call, request()).await
    }

    /// Sends a request once, within the time limit for one.
    pub async fn once<T>(
        &self,
        call: &Call,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, FleetError> {
        match tokio::time::timeout(self.timeout, request).await {
            Ok(answer) => answer.map_err(|error| FleetError::of(&error, call, &self.server)),
            Err(_) => Err(self.silence()),
        }
    }

    fn silence(&self) -> FleetError {
        FleetError::Unreachable {
            server: self.server.clone(),
            why: format!("no answer within {} s", self.timeout.as_secs()),
        }
    }
}

/// A runtime for a command: one thread is enough, because everything waits for the network.
pub fn runtime() -> Result<tokio::runtime::Runtime, FleetError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| FleetError::Runtime(format!("no event queue: {error}")))
}

fn may_succeed_later(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => is_temporary(status.code),
        kube::Error::HyperError(_) | kube::Error::Service(_) => true,
        _ => false,
    }
}

/// Makes the kube client, which runs the credential program if the kubeconfig names one. The limit
/// is needed because that program may never end, and kube waits for it.
async fn client(config: kube::Config, limit: Duration) -> Result<Client, FleetError> {
    let client = tokio::task::spawn_blocking(move || {
        let builder = ClientBuilder::try_from(config)?;
        Ok(builder.with_layer(&MapResponseLayer::new(pause::keep_header)).build())
    });
    match tokio::time::timeout(limit, client).await {
        Ok(Ok(client)) => client.map_err(|error| client_error(&error)),
        Ok(Err(error)) => Err(FleetError::Runtime(error.to_string())),
        Err(_) => {
            let seconds = limit.as_secs();
            let why = format!("the program that gives them does not end within {seconds} s");
            Err(FleetError::Credentials(why))
        }
    }
}

fn client_error(error: &kube::Error) -> FleetError {
    match error {
        kube::Error::Auth(error) => FleetError::of_auth(error),
        kube::Error::ProxyProtocolUnsupported { proxy_url }
        | kube::Error::ProxyProtocolDisabled { proxy_url, .. } => FleetError::of_proxy(proxy_url),
        kube::Error::RustlsTls(error) => FleetError::Kubeconfig(secretless::of_tls(error)),
        _ => FleetError::Kubeconfig("no client can be made from it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;
    use laststream_base::env_vars::KUBECONFIG;

    const FILE: &str = "apiVersion: v1\nkind: Config\ncurrent-context: prod\n\
        clusters:\n- {name: c, cluster: {server: 'http://127.0.0.1:1'}}\n\
        contexts:\n- {name: prod, context: {cluster: c, namespace: shop}}\n\
        - {name: torn, context: {cluster: gone}}\n";

    fn connect(access: &Access) -> Result<Cluster, FleetError> {
        runtime()?.block_on(Cluster::connect(access, &|_| None))
    }

    /// Connects as KUBECONFIG says, with these files in it.
    fn connect_by_variable(paths: &[&Path]) -> Result<Cluster, FleetError> {
        let value = std::env::join_paths(paths).unwrap();
        let lookup = move |name: &str| (name == KUBECONFIG).then(|| value.clone());
        runtime()?.block_on(Cluster::connect(&Access::default(), &lookup))
    }

    fn written() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        fs::write(&path, FILE).unwrap();
        (folder, path)
    }

    fn access(path: &Path) -> Access {
        Access { kubeconfig: Some(path.to_owned()), ..Access::default() }
    }

    #[test]
    fn the_namespace_is_the_option_s_else_the_context_s() {
        let (_folder, path) = written();
        assert_eq!(connect(&access(&path)).unwrap().namespace(), "shop");
        let other = Access { namespace: Some("other".to_owned()), ..access(&path) };
        assert_eq!(connect(&other).unwrap().namespace(), "other");
    }

    #[test]
    fn missing_files_are_skipped_as_in_kubectl() {
        let (folder, path) = written();
        let none = folder.path().join("none");
        assert_eq!(connect_by_variable(&[&none, &path]).unwrap().namespace(), "shop");
        let error = connect_by_variable(&[&none]).unwrap_err().to_string();
        assert!(error.contains("none"), "{error}");
    }

    /// `kubectl config unset current-context` leaves an empty string.
    #[test]
    fn an_empty_current_context_is_none() {
        let (folder, path) = written();
        let first = folder.path().join("first");
        fs::write(&first, "apiVersion: v1\nkind: Config\ncurrent-context: \"\"\n").unwrap();
        let both = connect_by_variable(&[&first, &path]).unwrap();
        assert_eq!(both.namespace(), "shop", "the second file names one");
        let error = connect(&access(&first)).unwrap_err();
        assert_eq!(error, FleetError::NoCurrentContext("none".to_owned()));
    }

    #[test]
    fn a_request_timeout_of_zero_is_no_limit() {
        let (_folder, path) = written();
        let request_timeout = Some(TimeSpan::default());
        let cluster = connect(&Access { request_timeout, ..access(&path) }).unwrap();
        assert_eq!(cluster.timeout, NO_LIMIT);
    }

    #[test]
    fn an_error_names_the_missing_context_cluster_or_file() {
        let (folder, path) = written();
        let context = |name: &str| Access { context: Some(name.to_owned()), ..access(&path) };
        let error = connect(&context("prd")).unwrap_err().to_string();
        assert!(error.contains("`prd`") && error.contains("`prod`, `torn`"), "{error}");
        let error = connect(&context("torn")).unwrap_err().to_string();
        assert!(error.contains("no cluster `gone`"), "{error}");
        let error = connect(&access(&folder.path().join("none"))).unwrap_err().to_string();
        assert!(error.contains("none"), "{error}");
        fs::write(&path, "clusters: [").unwrap();
        let error = connect(&access(&path)).unwrap_err().to_string();
        assert!(error.starts_with("the kubeconfig cannot be used: "), "{error}");
    }
}
