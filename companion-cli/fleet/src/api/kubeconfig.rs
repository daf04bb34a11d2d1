//! Finds and reads the kubeconfig as kubectl does.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;
use kube::config::{ExecConfig, KubeConfigOptions, Kubeconfig};

use crate::api::access::Access;
use crate::api::error::FleetError;
use laststream_base::env_vars::{self, KUBECONFIG, Lookup};
use laststream_http::url::is_loopback;

pub(crate) async fn config(access: &Access, lookup: Lookup<'_>) -> Result<Config, FleetError> {
    let Some(file) = kubeconfig(access, lookup)? else {
        // The service account of the pod that this process runs in.
        let missing = default_path(lookup);
        return Config::incluster().map_err(|error| FleetError::of_pod(&error, missing));
    };
    let contexts: Vec<String> = file.contexts.iter().map(|context| context.name.clone()).collect();
    let options = KubeConfigOptions {
        context: access.context.clone(),
        cluster: access.cluster.clone(),
        user: access.user.clone(),
    };
    let proxy = named_proxy(&file, &options);
    let config = Config::from_custom_kubeconfig(file, &options).await;
    let mut config = config.map_err(|error| FleetError::of_kubeconfig(&error, &contexts))?;
    // kube compares NO_PROXY with the host of the proxy, even of one from the kubeconfig.
    config.proxy_url = proxy.or_else(|| proxy_of_environment(&config.cluster_url, lookup));
    Ok(config)
}

impl Access {
    /// The contexts of the kubeconfig.
    pub fn contexts(&self, lookup: Lookup<'_>) -> Result<Vec<String>, FleetError> {
        let file = kubeconfig(self, lookup)?.unwrap_or_default();
        Ok(file.contexts.into_iter().map(|context| context.name).collect())
    }
}

/// The proxy of the cluster's entry. NO_PROXY does not apply to it, as in kubectl.
fn named_proxy(file: &Kubeconfig, options: &KubeConfigOptions) -> Option<Uri> {
    let context = options.context.as_ref().or(file.current_context.as_ref())?;
    let context = file.contexts.iter().find(|known| known.name == *context)?.context.as_ref()?;
    let cluster = options.cluster.as_ref().unwrap_or(&context.cluster);
    let cluster = file.clusters.iter().find(|known| known.name == *cluster)?.cluster.as_ref()?;
    cluster.proxy_url.as_ref()?.parse().ok() // kube has parsed it already
}

/// The proxy that a Go program takes from the environment: none for a server on this machine, and
/// `http://` if the variable has no scheme.
fn proxy_of_environment(server: &Uri, lookup: Lookup<'_>) -> Option<Uri> {
    let value = |names: [&str; 2]| names.into_iter().find_map(lookup)?.into_string().ok();
    let is_plain = server.scheme_str() == Some("http");
    let proxy = value(if is_plain {
        ["HTTP_PROXY", "http_proxy"]
    } else {
        ["HTTPS_PROXY", "https_proxy"]
    })?;
    let exceptions = value(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    // The matcher checks the exceptions alone, because it ignores a proxy with an unknown scheme.
    let matcher = Matcher::builder().all("http://proxy").no(exceptions).build();
    matcher.intercept(server).filter(|_| !server.host().is_some_and(is_loopback))?;
    let proxy = if proxy.contains("://") { proxy } else { format!("http://{proxy}") };
    proxy.parse().ok()
}

/// Puts these words before the command of the credential program.
pub(crate) fn guard(exec: &mut ExecConfig, words: &[OsString]) {
    let words: Option<Vec<String>> =
        words.iter().map(|word| Some(word.to_str()?.to_owned())).collect();
    let mut words = words.unwrap_or_default().into_iter();
    if let (Some(first), Some(program)) = (words.next(), exec.command.clone()) {
        let arguments = exec.args.take().unwrap_or_default();
        exec.args = Some(words.chain([program]).chain(arguments).collect());
        exec.command = Some(first);
    }
}

/// Reads the kubeconfig. A file that is named must exist; the default one need not, because pods
/// have none.
fn kubeconfig(access: &Access, lookup: Lookup<'_>) -> Result<Option<Kubeconfig>, FleetError> {
    if let Some(path) = &access.kubeconfig {
        return read(path).map(Some);
    }
    let paths: Vec<PathBuf> =
        lookup(KUBECONFIG).map(|value| std::env::split_paths(&value).collect()).unwrap_or_default();
    let present: Vec<_> = paths.iter().filter(|path| !path.as_os_str().is_empty()).collect();
    if let Some(first) = present.first() {
        // kubectl skips missing files.
        let mut files = present.iter().copied().filter(|path| path.exists()).peekable();
        if files.peek().is_none() {
            return read(first).map(Some);
        }
        let kubeconfig = files.try_fold(Kubeconfig::default(), |kubeconfig, path| {
            kubeconfig.merge(read(path)?).map_err(|error| FleetError::of_kubeconfig(&error, &[]))
        });
        return kubeconfig.map(Some);
    }
    let path = default_path(lookup);
    if path.exists() { read(&path).map(Some) } else { Ok(None) }
}

/// Reads one file. An empty `current-context`, which kubectl writes if none is chosen, counts as
/// none, so that the next file can choose one.
fn read(path: &Path) -> Result<Kubeconfig, FleetError> {
    let mut file =
        Kubeconfig::read_from(path).map_err(|error| FleetError::of_file(&error, path))?;
    file.current_context = file.current_context.filter(|name| !name.is_empty());
    Ok(file)
}

fn default_path(lookup: Lookup<'_>) -> PathBuf {
    let home = lookup(env_vars::HOME).map(PathBuf::from).unwrap_or_default();
    home.join(".kube").join("config")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(server: &str, variables: &[(&str, &str)]) -> Option<String> {
        let lookup = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        proxy_of_environment(&server.parse().unwrap(), &lookup).map(|proxy| proxy.to_string())
    }

    #[test]
    fn proxy_variables_are_read_as_in_go() {
        let https = ("HTTPS_PROXY", "http://10.1.2.3:3128");
        let api = "https://api.test:6443";
        let of = |server: &str, no: &str| proxy(server, &[https, ("NO_PROXY", no)]);
        let used = Some("http://10.1.2.3:3128/".to_owned());
        assert_eq!(proxy(api, &[https]), used);
        assert_eq!(proxy("http://api.test", &[https]), None, "that is for HTTP_PROXY");
        assert_eq!(of(api, "10.0.0.0/8,localhost"), used, "the proxy's own address");
        for exception in ["api.test", ".test", "*", "x, api.test"] {
            assert_eq!(of(api, exception), None, "{exception}");
        }
        for near in ["https://127.0.0.1:6443", "https://localhost:6443", "https://[::1]:6443"] {
            assert_eq!(proxy(near, &[https]), None, "{near}");
        }
        assert_eq!(proxy(api, &[("ALL_PROXY", "http://10.1.2.3:3128")]), None);
        for (written, read) in [
            ("proxy.corp:3128", "http://proxy.corp:3128"),
            ("socks5://localhost:1080", "socks5://localhost:1080"),
            ("ftp://proxy.corp", "ftp://proxy.corp"),
        ] {
            let proxy = proxy(api, &[("https_proxy", written)]).unwrap();
            assert_eq!(proxy.trim_end_matches('/'), read);
        }
    }
}
