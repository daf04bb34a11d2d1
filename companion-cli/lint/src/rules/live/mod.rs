//! LS801 to LS810 but for LS803: what only a live cluster shows: pods beside their templates, the
//! answers of gates, rights, nodes that end pods early.

mod gates;
mod pods;

use laststream_base::yaml::tree::Position;
use manifest_lint::{Checks, Findings, Inputs};

use crate::live::{Live, rights};

pub(super) const CHECKS: Checks = &[
    ("LS801", pods::not_rolled),
    ("LS802", pods::hook_differs),
    ("LS804", gates::missing),
    ("LS805", gates::grace_of_running_pods),
    ("LS806", gates::without_hook),
    ("LS807", gates::inexact),
    ("LS808", gates::versions),
    ("LS809", refused),
    ("LS810", pods::cut_by_nodes),
];

fn refused<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let rights = rights();
    let sources = (0_u32..).zip(&inputs.sources);
    let place = sources.into_iter().find(|(_, source)| source.object.as_ref() == Some(&rights));
    let Some((place, _)) = place else { return };
    for why in Live::of(inputs).into_iter().flat_map(|live| &live.refused) {
        findings.in_file(place, Position { line: 1, column: 1 }, why.clone());
    }
}
