//! The objects and the running pods of a cluster, as `lint` and `assess` read them.

use laststream_base::istio::ROOT_NAMESPACE;
use laststream_fleet::objects::Objects;
use laststream_fleet::{Cluster, FleetError, PodFacts, Ports, Selection};
use laststream_lint::cluster::RunningPods;
use serde_json::Value;

use crate::args::scan::ScanArgs;
use crate::commands::Failure;

/// What was read of a cluster.
pub(crate) struct Scanned {
    pub(crate) cluster: Cluster,
    pub(crate) objects: Vec<Value>,
    pub(crate) running: RunningPods,
    /// The pods that should have a gate.
    pub(crate) gated: Vec<PodFacts>,
    /// Why a part is missing, such as a right.
    pub(crate) refused: Vec<FleetError>,
}

pub(crate) async fn scan(arguments: &ScanArgs, ports: Ports) -> Result<Scanned, Failure> {
    let cluster = arguments.connect().await?;
    let Objects { objects, mut refused } =
        cluster.objects(arguments.all_namespaces, ROOT_NAMESPACE).await?;
    let (running, gated) = match running_pods(&cluster, &arguments.selection(ports)).await {
        Err(error) if !error.is_final() => {
            refused.push(error);
            <_>::default()
        }
        pods => pods?,
    };
    let is_own = |object: &Value| {
        arguments.all_namespaces || object["metadata"]["namespace"] == cluster.namespace()
    };
    let has_objects = arguments.selector.is_none() && objects.iter().any(is_own);
    if running.is_empty() && refused.is_empty() && !has_objects {
        let why = "nothing to check was found: are the namespace and the labels right?";
        return Err(FleetError::NothingFound(why.to_owned()).into());
    }
    Ok(Scanned { cluster, objects, running, gated, refused })
}

/// The running pods, and those of them that should have a gate.
async fn running_pods(
    cluster: &Cluster,
    selection: &Selection,
) -> Result<(RunningPods, Vec<PodFacts>), FleetError> {
    let mut running = RunningPods::default();
    let keep = |pod: PodFacts, fields| running.add(pod.uid.clone(), fields).then_some(pod);
    let gated = cluster.whole_pods(selection, keep).await?;
    Ok((running, gated))
}
