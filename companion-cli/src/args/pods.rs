//! The options that select pods, and those that say how to reach them.

use clap::Args;
use laststream_base::names;
use laststream_fleet::{
    AskOptions, Cluster, FleetError, GateQuery, Need, PodFacts, Ports, Selection, Survey,
};

use crate::args::cluster::ClusterArgs;
use crate::commands::{Failure, misused};

/// The options that make a command mean pods of a cluster, and not one gate.
#[derive(Debug, Default, PartialEq, Args)]
pub(crate) struct PodArgs {
    /// Pods, by `NAME` or `pod/NAME`, that are asked through the Kubernetes API.
    #[arg(value_name = "POD", value_parser = pod, conflicts_with = "selector")]
    names: Vec<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Pods with these labels, such as `app=web`.
    #[arg(short = 'l', long, value_name = "LABELS", value_parser = labels,
        help_heading = "Cluster")]
    selector: Option<String>,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// The options of the commands that can ask all pods of a namespace, a node or a cluster.
#[derive(Debug, Default, PartialEq, Args)]
pub(crate) struct FleetArgs {
    #[command(flatten)]
    pub(crate) pods: PodArgs,
    /// All namespaces.
    #[arg(short = 'A', long, conflicts_with_all = ["namespace", "names"], help_heading = "Cluster")]
    all_namespaces: bool,
    /// Pods on this node, in all namespaces if none is given.
    #[arg(long, value_name = "NAME", value_parser = names::subdomain, conflicts_with = "names",
        help_heading = "Cluster")]
    pub(crate) node: Option<String>,
    /// The port with Envoy's statistics [default: the annotation laststream.io/stats-port, else
    /// 19001 for Envoy Gateway, else 15020]
    #[arg(long, value_name = "PORT", help_heading = "Cluster")]
    stats_port: Option<u16>,
}

/// How gates of pods are reached.
#[derive(Debug, Default, PartialEq, Args)]
pub(crate) struct ReachArgs {
    /// The gate's port [default: the annotation laststream.io/gate-port, else that of the stop
    /// hook, else 16091]
    #[arg(long, value_name = "PORT", help_heading = "Cluster")]
    gate_port: Option<u16>,
    /// How many pods are asked at a time [default: 64]
    #[arg(long, value_name = "COUNT", help_heading = "Cluster",
        value_parser = clap::value_parser!(u16).range(1..=512))]
    at_a_time: Option<u16>,
}

const AT_A_TIME: u16 = 64;

/// An empty selector would mean all pods.
pub(crate) fn labels(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() { Err("is empty: it would mean all pods") } else { Ok(text.into()) }
}

fn pod(text: &str) -> Result<String, String> {
    const KINDS: [&str; 3] = ["pod", "pods", "po"];
    let name = match text.split_once('/') {
        Some((kind, name)) if KINDS.contains(&kind) => name,
        Some(_) => {
            return Err(
                "write `NAME` or `pod/NAME`, and the namespace with `-n`; `-l` selects the \
                        pods of a workload"
                    .to_owned(),
            );
        }
        None => text,
    };
    names::subdomain(name).map_err(str::to_owned)
}

impl PodArgs {
    /// Whether an option is given: then the command is for the cluster.
    pub(crate) fn are_given(&self) -> bool {
        *self != Self::default()
    }

    /// Refuses a namespace alone, for commands that must not mean all of its pods.
    pub(crate) fn require_names_or_labels(&self) -> Result<(), Failure> {
        if self.names.is_empty() && self.selector.is_none() {
            return Err(misused("name the pods, or select them with `-l`"));
        }
        Ok(())
    }

    pub(crate) fn selection(&self) -> Selection {
        Selection {
            names: self.names.clone(),
            labels: self.selector.clone(),
            ports: self.reach.ports(),
            ..Selection::default()
        }
    }
}

impl ReachArgs {
    pub(crate) fn ports(&self) -> Ports {
        Ports { stats: None, gate: self.gate_port }
    }

    pub(crate) fn at_a_time(&self) -> usize {
        self.at_a_time.unwrap_or(AT_A_TIME).into()
    }

    pub(crate) fn ask_options(&self) -> AskOptions {
        AskOptions {
            at_a_time: self.at_a_time(),
            query: GateQuery::IfUnknown(Need::State),
            streams: 3,
        }
    }
}

impl FleetArgs {
    /// Whether the command is for the cluster, not for one gate.
    pub(crate) fn are_given(&self) -> bool {
        *self != Self::default()
    }

    /// Whether all namespaces are searched. A node has pods of many namespaces.
    pub(crate) fn is_everywhere(&self) -> bool {
        self.all_namespaces || (self.node.is_some() && self.pods.cluster.access.namespace.is_none())
    }

    pub(crate) fn ask_options(&self) -> AskOptions {
        self.pods.reach.ask_options()
    }

    /// The cluster. No request has been sent to it.
    pub(crate) async fn connect(&self) -> Result<Cluster, FleetError> {
        self.pods.cluster.connect().await
    }

    /// The pods, and the names that none of them has.
    pub(crate) async fn listed(
        &self,
        cluster: &Cluster,
    ) -> Result<(Vec<PodFacts>, Vec<String>), FleetError> {
        let selection = Selection {
            everywhere: self.is_everywhere(),
            node: self.node.clone(),
            ports: Ports { stats: self.stats_port, ..self.pods.reach.ports() },
            ..self.pods.selection()
        };
        cluster.targets(&selection).await
    }

    pub(crate) async fn survey(
        &self,
        cluster: &Cluster,
        options: AskOptions,
    ) -> Result<Survey, FleetError> {
        let (pods, missing) = self.listed(cluster).await?;
        Ok(Survey { missing, ..cluster.survey(pods, options).await })
    }
}
