//! The options that select pods, and those that say how to reach them.

use clap::Args;
use laststream_fleet::{AskOptions, Cluster, FleetError, Gates, Ports, Selection, Survey};

use crate::commands::cluster_args::{ClusterArgs, node};

/// The options that make a command mean many pods.
#[derive(Debug, Args)]
pub(in crate::commands) struct FleetArgs {
    #[command(flatten)]
    pub(in crate::commands) cluster: ClusterArgs,
    /// All namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace", help_heading = "Cluster")]
    all_namespaces: bool,
    /// Pods with these labels, such as `app=web`.
    #[arg(short = 'l', long, value_name = "LABELS", help_heading = "Cluster")]
    selector: Option<String>,
    /// Pods on this node, in all namespaces if none is given.
    #[arg(long, value_name = "NAME", value_parser = node, help_heading = "Cluster")]
    pub(in crate::commands) node: Option<String>,
    #[command(flatten)]
    pub(in crate::commands) reach: ReachArgs,
}

/// How pods are reached.
#[derive(Debug, Args)]
pub(in crate::commands) struct ReachArgs {
    /// The port with Envoy's statistics [default: the annotation laststream.io/stats-port, else
    /// 19001 for Envoy Gateway, else 15020]
    #[arg(long, value_name = "PORT", help_heading = "Cluster")]
    stats_port: Option<u16>,
    /// The gate's port [default: the annotation laststream.io/gate-port, else 15091]
    #[arg(long, value_name = "PORT", help_heading = "Cluster")]
    gate_port: Option<u16>,
    /// How many pods are asked at a time [default: 64]
    #[arg(long, value_name = "COUNT", help_heading = "Cluster",
        value_parser = clap::value_parser!(u16).range(1..=512))]
    at_a_time: Option<u16>,
}

const AT_A_TIME: u16 = 64;

impl ReachArgs {
    /// Whether an option is given: then the command is for the cluster.
    pub(in crate::commands) fn are_given(&self) -> bool {
        self.stats_port.is_some() || self.gate_port.is_some() || self.at_a_time.is_some()
    }

    pub(in crate::commands) fn ports(&self) -> Ports {
        Ports { stats: self.stats_port, gate: self.gate_port }
    }

    pub(in crate::commands) fn ask_options(&self) -> AskOptions {
        let at_a_time = self.at_a_time.unwrap_or(AT_A_TIME).into();
        AskOptions { at_a_time, gates: Gates::Draining, streams: 3 }
    }
}

impl FleetArgs {
    /// Whether the command is for the cluster, not for one gate.
    pub(in crate::commands) fn are_given(&self) -> bool {
        self.cluster.are_given()
            || self.all_namespaces
            || self.selector.is_some()
            || self.node.is_some()
            || self.reach.are_given()
    }

    /// Whether all namespaces are searched. A node has pods of many namespaces.
    pub(in crate::commands) fn is_everywhere(&self) -> bool {
        self.all_namespaces || (self.node.is_some() && self.cluster.namespace.is_none())
    }

    /// Lists the pods and asks them.
    pub(in crate::commands) async fn survey(
        &self,
        cluster: &Cluster,
        options: AskOptions,
    ) -> Result<Survey, FleetError> {
        let selection = Selection {
            everywhere: self.is_everywhere(),
            labels: self.selector.clone(),
            node: self.node.clone(),
            ports: self.reach.ports(),
        };
        let pods = cluster.pods(&selection).await?;
        Ok(cluster.survey(pods, options).await)
    }
}
