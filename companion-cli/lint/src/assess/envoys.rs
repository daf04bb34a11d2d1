//! The rows of whole bootstraps: Envoys without a mesh.

use laststream_assess::{Kind, Proxy, Row, Workload};

use super::mesh::read_gate;
use super::workloads::row;
use crate::modules::gates;
use manifest_lint::envoys::whole_bootstraps;
use manifest_lint::inputs::Inputs;
use manifest_lint::node::Node;
use manifest_lint::objects::Object;

/// The rows of files that are bootstraps. Whether a stop hook asks their gate, they do not say.
pub(super) fn rows(inputs: &Inputs) -> Vec<Row> {
    let files = whole_bootstraps(inputs).filter(|root| root.carrier().is_none());
    let row_of = |root: Node<'_>| {
        let gate = gates(inputs).find(|(module, _)| module.plugin.outermost().tree == root.tree);
        let gate = gate.map(|(_, gate)| read_gate(&gate));
        let usual = Proxy::of(Kind::PlainEnvoy);
        let grace = usual.grace.filter(|_| gate.is_none());
        let row = row(inputs, root, Proxy { gate, grace, ..usual }, None);
        let workload = Workload { kind: "Envoy".to_owned(), ..row.workload };
        Row { workload, grace: None, ..row }
    };
    files.filter(|root| Object::new(*root).is_none()).map(row_of).collect()
}
