//! A Gateway for Envoy Gateway's controller, and the Deployment that the controller makes of it.

use std::fmt::Display;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use super::controller::{Controller, NAMESPACE};
use crate::cluster::Cluster;
use crate::objects::{Given, objects};
use kit::prelude::*;

/// Creates a Gateway that listens on this port, and routes all its requests to the upstream, which
/// its proxies reach at this address.
pub(crate) async fn create(
    cluster: &Cluster,
    name: &str,
    listener: u16,
    address: &str,
    upstream: &Upstream,
) -> Outcome {
    let app = forwarded(address, upstream.h1()).await?.port();
    let grpc = forwarded(address, upstream.h2()).await?.port();
    let given: &[Given<'_>] = &[
        ("name", &name as &dyn Display),
        ("listener", &listener),
        ("port", &app),
        ("grpc_port", &grpc),
        ("address", &address),
    ];
    cluster.apply_all(&objects(include_str!("objects/gateway.yaml"), given)?).await
}

/// Forwards connections from this address to the upstream, and returns the listening one.
async fn forwarded(address: &str, upstream: SocketAddr) -> Outcome<SocketAddr> {
    let listener = TcpListener::bind((address, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut from, _)) = listener.accept().await {
            tokio::spawn(async move {
                if let Ok(mut to) = TcpStream::connect(upstream).await {
                    copy_bidirectional(&mut from, &mut to).await.ok();
                }
            });
        }
    });
    Ok(address)
}

/// The controller's Deployment of a Gateway, once `is_so` accepts its pod.
pub(crate) async fn deployment(
    cluster: &Cluster,
    controller: &Controller,
    gateway: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Outcome<Value> {
    let label = format!("gateway.envoyproxy.io/owning-gateway-name={gateway}");
    wait_for(PATIENCE, "Envoy Gateway's Deployment", async || {
        let get = ["get", "deployments", "--namespace", NAMESPACE, "--output", "json"];
        let said = cluster.run(&[&get[..], &["--selector", &label]].concat()).await?;
        let list: Value = serde_json::from_str(&said)?;
        let deployment = list["items"][0].clone();
        ensure!(
            deployment.is_object() && is_so(&deployment["spec"]["template"]["spec"]),
            "{deployment:#}"
        );
        Ok(deployment)
    })
    .await
    .with_context(|| controller.log())
}
