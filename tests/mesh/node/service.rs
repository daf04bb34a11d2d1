//! The ready endpoints of a gateway's Service, as a layer 4 balancer knows them.

use std::net::IpAddr;

use super::workload::GATEWAY;
use super::world::World;
use crate::load::Endpoints;
use kit::prelude::*;

#[derive(Clone, Copy)]
pub(crate) struct Service {
    pub(crate) world: &'static World,
    pub(crate) namespace: &'static str,
    pub(crate) name: &'static str,
}

impl Endpoints for Service {
    fn any(&self) -> Option<SocketAddr> {
        let ready = self.world.slices.find(self.namespace, |slice| {
            if slice["metadata"]["labels"]["kubernetes.io/service-name"] != self.name {
                return None;
            }
            let endpoints = slice["endpoints"]
                .as_array()?
                .iter()
                .filter(|endpoint| endpoint["conditions"]["ready"] == true);
            Some(
                endpoints
                    .filter_map(|endpoint| endpoint["addresses"][0].as_str()?.parse().ok())
                    .collect::<Vec<_>>(),
            )
        });
        let ready: Vec<IpAddr> = ready.into_iter().flatten().collect();
        fastrand::choice(&ready).map(|address| SocketAddr::new(*address, GATEWAY))
    }

    fn has(&self, _: SocketAddr) -> bool {
        true // its pods take connections for seconds after the Service has lost them
    }

    fn pod_at(&self, gateway: SocketAddr) -> String {
        let address = gateway.ip().to_string();
        let there = |pod: &Value| pod["status"]["podIP"] == address.as_str();
        let names = self.world.pods.find(self.namespace, |pod| {
            there(pod).then(|| pod["metadata"]["name"].as_str().map(str::to_owned))?
        });
        names.into_iter().next().unwrap_or_else(|| format!("{address}, which is gone"))
    }
}
