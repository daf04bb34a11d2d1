//! The files that a kustomization names as patches. A patch is a part of an object, so the API
//! server's rules for objects are not for it.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use crate::{Node, Texts, number, of_kind};

pub(crate) fn patch_files(texts: &Texts) -> HashSet<u32> {
    let patches: HashSet<PathBuf> =
        of_kind(texts, "Kustomization").flat_map(|object| patches_of(texts, object.node)).collect();
    let files = texts.sources.iter().enumerate();
    files
        .filter(|(_, source)| patches.contains(&plain(Path::new(&source.name))))
        .map(|(file, _)| number(file))
        .collect()
}

fn patches_of(texts: &Texts, kustomization: Node<'_>) -> Vec<PathBuf> {
    let file = texts.source(kustomization.tree).map_or("", |source| &source.name);
    let folder = Path::new(file).parent().unwrap_or_else(|| Path::new(""));
    let paths = kustomization.all("patches[]|patchesJson6902[].path");
    let files = paths.chain(kustomization.list("patchesStrategicMerge")).filter_map(Node::text);
    files.map(|path| plain(&folder.join(path))).collect()
}

/// The path without `.`, and without `..` behind a folder.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(plain.components().next_back(), Some(Component::Normal(_))) =>
            {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}
