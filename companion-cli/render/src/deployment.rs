//! Patches of a Deployment, and the command that applies them.

use crate::objects::{in_namespace, object};
use laststream_base::istio::ROOT_NAMESPACE;
use laststream_base::yaml::Map;
use laststream_policy::Policy;

/// The Deployment of the proxies.
pub(crate) struct Deployment<'p> {
    pub(crate) name: &'p str,
    pub(crate) namespace: Option<&'p str>,
}

impl<'p> Deployment<'p> {
    /// One in the policy's namespace, unless that is Istio's root namespace, which is also for
    /// proxies of other namespaces.
    pub(crate) fn in_mesh(name: &'p str, policy: &'p Policy) -> Self {
        let namespace = policy.namespace.as_deref().filter(|name| *name != ROOT_NAMESPACE);
        Self { name, namespace }
    }

    /// A patch of its pods.
    pub(crate) fn patch(&self, template: Map) -> Map {
        let metadata = Map::of("name", self.name).with_some("namespace", self.namespace);
        object("apps/v1", "Deployment", metadata, Map::of("template", template))
    }

    /// The comment of a patch: its Deployment, and the command.
    pub(crate) fn how_to_patch(&self, file: &str) -> String {
        format!("A patch for the Deployment `{}`: {}", self.name, self.patch_command(file))
    }

    pub(crate) fn patch_command(&self, file: &str) -> String {
        let place = in_namespace(self.namespace);
        format!("kubectl{place} patch deployment {} --patch-file {file}", self.name)
    }
}
