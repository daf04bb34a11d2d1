//! The objects that differ between the old files and the new ones.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Inputs, Node, Object, objects};

/// The most comparisons for one pair of nodes, because hostile aliases could ask for an unbounded
/// number. Beyond it, the nodes count as different.
const MOST_COMPARISONS: u32 = 2_000_000;
const DEEPEST: u32 = 200;

/// An object before and after the change; at least one of the two exists.
pub(super) struct Pair<'g> {
    pub(super) old: Option<Object<'g>>,
    pub(super) new: Option<Object<'g>>,
    /// The object after the change, or before the change if it was removed.
    pub(super) latest: Object<'g>,
}

impl<'g> Pair<'g> {
    fn side(object: Option<Object<'g>>, path: &str) -> Option<Node<'g>> {
        path.split('.').try_fold(object?.node, Node::get)
    }

    /// A field before and after.
    pub(super) fn field(&self, path: &str) -> [Option<Node<'g>>; 2] {
        [Self::side(self.old, path), Self::side(self.new, path)]
    }

    /// A field after the change, or before it if it was removed.
    pub(super) fn latest_field(&self, path: &str) -> Option<Node<'g>> {
        let [old, new] = self.field(path);
        new.or(old)
    }

    /// The keys of a map before and after.
    pub(super) fn keys(&self, path: &str) -> BTreeSet<&'g str> {
        let sides = self.field(path).into_iter().flatten();
        sides.flat_map(Node::entries).map(|(key, _)| key).collect()
    }

    /// Whether a field differs. A field that is missing is the same as an empty one.
    pub(super) fn differs(&self, path: &str) -> bool {
        let [old, new] = self.field(path).map(|node| node.filter(|node| !node.is_empty()));
        !same(old, new)
    }

    /// Whether the object was added or removed.
    pub(super) fn comes_or_goes(&self) -> bool {
        self.old.is_none() || self.new.is_none()
    }

    /// The change in words.
    pub(super) fn words(&self) -> String {
        format!("{} `{}` is {}", self.latest.kind, self.latest.name(), self.verb())
    }

    /// The change as a word: new, removed or changed.
    pub(super) fn verb(&self) -> &'static str {
        match (self.old, self.new) {
            (None, _) => "new",
            (_, None) => "removed",
            _ => "changed",
        }
    }
}

/// The key of a resource: two objects are the same one if group, kind, namespace and name are
/// equal.
fn key<'g>(object: Object<'g>) -> (&'g str, &'g str, &'g str, &'g str) {
    (object.group(), object.kind, object.namespace().unwrap_or_default(), object.name())
}

/// The objects that differ between the two sets of files, or are in only one of them.
pub(super) fn changed(inputs: &Inputs) -> Vec<Pair<'_>> {
    let Some(old_files) = inputs.old_files else { return Vec::new() };
    let mut pairs: BTreeMap<_, Pair<'_>> = BTreeMap::new();
    for object in objects(inputs) {
        let fresh = Pair { old: None, new: None, latest: object };
        let pair = pairs.entry(key(object)).or_insert(fresh);
        let is_old = inputs.file_of(object.node.tree) < old_files;
        *(if is_old { &mut pair.old } else { &mut pair.new }) = Some(object);
        pair.latest = pair.new.unwrap_or(object);
    }
    let differs = |pair: &Pair<'_>| {
        let [old, new] = [pair.old, pair.new].map(|object| object.map(|object| object.node));
        old != new && !same(old, new)
    };
    pairs.into_values().filter(differs).collect()
}

/// Whether two nodes are equal, whatever their YAML style and the order of their keys.
pub fn same(one: Option<Node<'_>>, other: Option<Node<'_>>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => is_same(one, other, DEEPEST, &mut MOST_COMPARISONS.clone()),
        _ => false,
    }
}

fn is_same(one: Node<'_>, other: Node<'_>, depth: u32, left: &mut u32) -> bool {
    let (Some(depth), Some(fewer)) = (depth.checked_sub(1), left.checked_sub(1)) else {
        return false;
    };
    *left = fewer;
    if let (Some(one), Some(other)) = (one.embedded(), other.embedded()) {
        return is_same(one, other, depth, left);
    }
    if one.is_map() && other.is_map() {
        return one.entries().count() == other.entries().count()
            && one.entries().all(|(key, value)| {
                other.get(key).is_some_and(|other| is_same(value, other, depth, left))
            });
    }
    if one.is_list() && other.is_list() {
        let (ones, others) = (one.items(), other.items());
        return one.items().count() == other.items().count()
            && ones.zip(others).all(|(one, other)| is_same(one, other, depth, left));
    }
    one.text().is_some() && one.text() == other.text() && one.meaning() == other.meaning()
}
