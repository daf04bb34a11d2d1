//! The options of the commands that read the objects of a cluster, and its running pods.

use clap::Args;
use laststream_fleet::{Access, Cluster, FleetError, Ports, Selection};

use crate::args::cluster::connect;
use crate::args::pods::labels;

/// The options that make a command read a cluster, instead of files.
#[derive(Debug, Default, PartialEq, Args)]
pub(crate) struct ScanArgs {
    /// Reads the objects of a cluster and its running pods, instead of files: those of the context,
    /// or of another one with `--cluster=NAME`.
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true,
        default_missing_value = "", conflicts_with = "files")]
    cluster: Option<String>,
    #[command(flatten)]
    access: Access,
    /// All namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace", help_heading = "Cluster")]
    pub(crate) all_namespaces: bool,
    /// Only pods with these labels, such as `app=web`, and what makes them.
    #[arg(short = 'l', long, value_name = "LABELS", value_parser = labels,
        help_heading = "Cluster")]
    pub(crate) selector: Option<String>,
}

impl ScanArgs {
    pub(crate) fn is_given(&self) -> bool {
        self.cluster.is_some()
    }

    pub(crate) async fn connect(&self) -> Result<Cluster, FleetError> {
        let name = self.cluster.clone().filter(|name| !name.is_empty());
        connect(&self.access, name).await
    }

    pub(crate) fn selection(&self, ports: Ports) -> Selection {
        Selection {
            everywhere: self.all_namespaces,
            labels: self.selector.clone(),
            ports,
            ..Selection::default()
        }
    }
}
