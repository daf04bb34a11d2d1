//! Finds the kubeconfig, and what it says, as kubectl does.

use std::ffi::OsString;
use std::path::PathBuf;

use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;
use kube::config::{ExecConfig, KubeConfigOptions, Kubeconfig};

use super::client::Access;
use super::error::FleetError;
use crate::env_vars::{self, KUBECONFIG, Lookup};

pub(super) async fn config(access: &Access, lookup: Lookup<'_>) -> Result<Config, FleetError> {
    let Some(file) = kubeconfig(access, lookup)? else {
        return in_cluster(lookup);
    };
    let contexts: Vec<String> = file.contexts.iter().map(|context| context.name.clone()).collect();
    let options = KubeConfigOptions {
        context: access.context.clone(),
        cluster: access.cluster.clone(),
        user: access.user.clone(),
    };
    let config = Config::from_custom_kubeconfig(file, &options).await;
    let mut config = config.map_err(|error| FleetError::of_kubeconfig(&error, &contexts))?;
    if is_proxy_of_environment(&config, lookup)
        && Matcher::from_env().intercept(&config.cluster_url).is_none()
    {
        config.proxy_url = None; // kube compares NO_PROXY with the proxy's own host
    }
    Ok(config)
}

/// Puts these words before the program that gives credentials.
pub(super) fn guard(exec: &mut ExecConfig, words: &[OsString]) {
    let words: Option<Vec<String>> =
        words.iter().map(|word| Some(word.to_str()?.to_owned())).collect();
    let mut words = words.unwrap_or_default().into_iter();
    if let (Some(first), Some(program)) = (words.next(), exec.command.clone()) {
        let own = exec.args.take().unwrap_or_default();
        exec.args = Some(words.chain([program]).chain(own).collect());
        exec.command = Some(first);
    }
}

/// A proxy that the kubeconfig names is used whatever NO_PROXY says, as kubectl does.
fn is_proxy_of_environment(config: &Config, lookup: Lookup<'_>) -> bool {
    let named = ["HTTPS_PROXY", "https_proxy"].into_iter().find_map(lookup);
    let named = named.and_then(|value| value.to_str()?.parse().ok());
    config.proxy_url.is_some() && config.proxy_url == named
}

/// A file that is named must be there. The usual one need not be: pods have none.
fn kubeconfig(access: &Access, lookup: Lookup<'_>) -> Result<Option<Kubeconfig>, FleetError> {
    let to_error = |error| FleetError::of_kubeconfig(&error, &[]);
    if let Some(path) = &access.kubeconfig {
        return Kubeconfig::read_from(path).map(Some).map_err(to_error);
    }
    let named: Vec<PathBuf> =
        lookup(KUBECONFIG).map(|value| std::env::split_paths(&value).collect()).unwrap_or_default();
    let named: Vec<_> = named.iter().filter(|path| !path.as_os_str().is_empty()).collect();
    if let Some(first) = named.first() {
        // kubectl passes over files that are not there.
        let mut files = named.iter().copied().filter(|path| path.exists()).peekable();
        if files.peek().is_none() {
            return Kubeconfig::read_from(first).map(Some).map_err(to_error);
        }
        let merged = files.try_fold(Kubeconfig::default(), |merged, path| {
            merged.merge(Kubeconfig::read_from(path)?)
        });
        return merged.map(Some).map_err(to_error);
    }
    let usual = usual_file(lookup);
    if usual.exists() { Kubeconfig::read_from(usual).map(Some).map_err(to_error) } else { Ok(None) }
}

fn usual_file(lookup: Lookup<'_>) -> PathBuf {
    let home = lookup(env_vars::HOME).map(PathBuf::from).unwrap_or_default();
    home.join(".kube").join("config")
}

/// The service account of the pod that this process runs in.
fn in_cluster(lookup: Lookup<'_>) -> Result<Config, FleetError> {
    Config::incluster().map_err(|_| FleetError::NoKubeconfig(usual_file(lookup)))
}
