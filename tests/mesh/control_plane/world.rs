//! The world that all cases of this level share: the cluster, istiod, a registry with the module in
//! it.

use tokio::task::block_in_place;

use crate::cluster::{Cluster, Settings};
use crate::istio::Istio;
use crate::started::Started;
use kit::prelude::*;
use kit::registry::real::{self, Registry};
use kit::user::User;

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) istio: Istio,
    pub(crate) registry: Registry,
    /// The module's address, with a tag.
    pub(crate) module: String,
    /// The digest of the tag's manifest: `sha256:…`.
    pub(crate) digest: String,
}

impl World {
    /// The world, which the first case starts. It ends with the process.
    pub(crate) async fn get() -> Outcome<&'static Self> {
        static WORLD: Started<World> = Started::new();
        WORLD.get(World::start).await
    }

    async fn start() -> Outcome<Self> {
        say("starting a registry, the API server and istiod; takes about ten seconds");
        let registry = Registry::start(&real::Settings::default())?;
        let image = format!("{}/mesh/laststream:1", registry.name());
        let digest = block_in_place(|| push(&image))?;
        let cluster = Cluster::start(&Settings::default()).await?;
        let istio = Istio::start(&cluster, "127.0.0.1", &json!({})).await?;
        Ok(Self { cluster, istio, registry, module: format!("oci://{image}"), digest })
    }
}

/// Runs `laststream push`, and returns the digest of the manifest.
pub(crate) fn push(image: &str) -> Outcome<String> {
    let said = User::new()?.run(&["push", "-o", "json", image], "")?.expect(0)?;
    let result = said.json_lines()?.into_iter().next().context("push says nothing")?;
    result["digest"].as_str().map(String::from).with_context(|| format!("no digest in {result}"))
}
