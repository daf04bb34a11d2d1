//! Judges the objects of a cluster: all together, or namespace by namespace if they are too many.

use std::collections::BTreeSet;

use laststream_lint::live::{ClusterObject, Live, Workload};
use laststream_lint::output::Checked;
use laststream_lint::{self as lint, Assume, Finding, LARGEST_SUM, SourceError, SourceFile};
use laststream_policy::warnings::ROOT_NAMESPACE;

use super::workloads::Cluster;

/// The findings, and the number of judged objects.
pub(super) fn judged(
    cluster: &Cluster,
    refused: Vec<String>,
    assume: &Assume,
) -> Result<(Vec<Finding>, Checked), SourceError> {
    let findings = match part(cluster, refused.clone(), &|_| true, assume) {
        Err(SourceError::TooLarge | SourceError::TooManyValues) => {
            by_namespace(cluster, refused, assume)?
        }
        whole => whole?,
    };
    Ok((findings, Checked::Objects(cluster.objects.len())))
}

/// Judges each namespace beside the root namespace and the objects of the whole cluster, then those
/// alone. A namespace that is too large by itself is left out and told.
fn by_namespace(
    cluster: &Cluster,
    mut refused: Vec<String>,
    assume: &Assume,
) -> Result<Vec<Finding>, SourceError> {
    let is_shared = |object: &ClusterObject| {
        object.namespace.as_deref().is_none_or(|name| name == ROOT_NAMESPACE)
    };
    let objects = cluster.objects.iter().map(|(object, _)| object);
    let others = objects.filter(|object| !is_shared(object));
    let spaces: BTreeSet<&String> = others.filter_map(|object| object.namespace.as_ref()).collect();
    let mut all = Vec::new();
    for space in spaces {
        let is_own = |object: &ClusterObject| object.namespace.as_ref() == Some(space);
        let wanted = |object: &ClusterObject| is_own(object) || is_shared(object);
        match part(cluster, Vec::new(), &wanted, assume) {
            Ok(mut found) => {
                found.retain(|finding| finding.object.as_ref().is_some_and(is_own));
                all.append(&mut found);
            }
            Err(_) => refused.push(format!(
                "the namespace `{space}` holds more than `lint` reads at once: narrow it with `-l`"
            )),
        }
    }
    all.append(&mut part(cluster, refused, &is_shared, assume)?);
    Ok(all)
}

/// Judges the wanted objects.
fn part(
    cluster: &Cluster,
    refused: Vec<String>,
    wanted: &dyn Fn(&ClusterObject) -> bool,
    assume: &Assume,
) -> Result<Vec<Finding>, SourceError> {
    let objects = || cluster.objects.iter().filter(|(object, _)| wanted(object));
    let sum: u64 = objects().map(|(_, text)| text.len() as u64).sum();
    if sum > LARGEST_SUM {
        return Err(SourceError::TooLarge);
    }
    let mut sources: Vec<SourceFile> =
        objects().map(|(object, text)| SourceFile::of_object(object.clone(), text)).collect();
    if !refused.is_empty() {
        sources.push(SourceFile::of_object(ClusterObject::rights(), ""));
    }
    let is_wanted = |workload: &&Workload| wanted(&workload.object);
    let workloads = cluster.workloads.iter().filter(is_wanted).cloned().collect();
    lint::cluster(sources, Live { workloads, refused }, assume.clone())
}
