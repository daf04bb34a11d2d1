//! What all cases of this level share: the cluster, istiod, a registry with the module in it.

use tokio::sync::OnceCell;

use crate::cluster::{Cluster, Settings};
use crate::istio::Istio;
use crate::support::failure::{Failure, Outcome};

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) istio: Istio,
}

impl World {
    /// The first that asks starts it; it ends with the process.
    pub(crate) async fn get() -> Outcome<&'static Self> {
        static WORLD: OnceCell<Result<World, String>> = OnceCell::const_new();
        let started = async || World::start().await.map_err(|failure| failure.to_string());
        WORLD.get_or_init(started).await.as_ref().map_err(Failure::new)
    }

    async fn start() -> Outcome<Self> {
        let cluster = Cluster::start(&Settings::default()).await?;
        let istio = Istio::start(&cluster, "127.0.0.1").await?;
        Ok(Self { cluster, istio })
    }
}
