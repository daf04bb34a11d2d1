//! What the next stop of each proxy cuts. Here the settings are read, of files or of a cluster;
//! `laststream_assess` computes with them.

mod envoys;
mod facts;
mod gateways;
mod hooks;
mod kinds;
mod mesh;
mod settings;
#[cfg(test)]
mod tests;
mod values;
mod workloads;

pub use laststream_assess::Assessment;

use std::cmp::Reverse;
use std::path::Path;

use laststream_assess::Row;

use crate::LINTER;
use manifest_lint::{Assume, Finding, Inputs, Node, Object, SourceError, SourceFile};
use mesh::Mesh;

/// What the next stop of each proxy of these files cuts, and what could not be read of them.
///
/// # Errors
/// The files hold more values than allowed.
pub fn assess(
    sources: Vec<SourceFile>,
    assume: Assume,
) -> Result<(Assessment, Vec<Finding>), SourceError> {
    let inputs = Inputs::read(&LINTER.program, sources, assume)?;
    Ok((assessed(&inputs), LINTER.judged(&inputs, LINTER.of_unread())))
}

pub(crate) fn assessed(inputs: &Inputs) -> Assessment {
    let mesh = Mesh::of(inputs);
    let (mut rows, without_proxy) = workloads::rows(inputs, &mesh);
    rows.extend(gateways::rows(inputs, &mesh, &rows));
    rows.extend(values::rows(inputs, &mesh));
    rows.extend(envoys::rows(inputs));
    dedup(&mut rows);
    Assessment::of(rows, without_proxy)
}

/// How much of the paths of their files two nodes share. One repository has the files of several
/// clusters, so what is nearer belongs to a workload rather than what is farther away.
fn nearness(one: Node<'_>, two: Node<'_>) -> usize {
    let [one, two] = [one, two].map(|node| {
        let source = node.texts.source(node.tree);
        source.into_iter().flat_map(|source| Path::new(&source.name).components())
    });
    one.zip(two).take_while(|(one, two)| one == two).count()
}

/// The first of the objects that are nearest to a place.
fn nearest<'g>(place: Node<'_>, objects: impl Iterator<Item = Object<'g>>) -> Option<Object<'g>> {
    objects.min_by_key(|object| Reverse(nearness(place, object.node)))
}

/// The folder of the file that holds a node.
fn folder(node: Node<'_>) -> Option<&Path> {
    Path::new(&node.texts.source(node.tree)?.name).parent()
}

/// Leaves out the second of two equal rows: a folder may have an object twice.
fn dedup(rows: &mut Vec<Row>) {
    let mut keys = std::collections::HashSet::new();
    rows.retain(|row| {
        let is_named = !row.workload.name.is_empty();
        !is_named || keys.insert((row.workload.clone(), row.stop.cut.millis, row.place.clone()))
    });
}
