//! Compares values of two texts, whatever their form and the order of their fields.

use laststream_base::yaml::tree::NodeKind;
use laststream_base::yaml::{self, Map};

use super::document::{Document, Id};
use super::error::MergeError;
use super::parts::{counts_connections, is_gate_listener, is_our_filter};
use laststream_policy::placement::ADMIN_CLUSTER;

/// Whether a value of a document is this map.
pub(super) fn is_same(document: &Document<'_>, id: Id, map: &Map) -> bool {
    let text = yaml::write_map(map);
    let Ok(other) = Document::read(&text) else { return false };
    let (left, right) = ((document, id), (&other, other.root()));
    contains(left, right, &|_, _| false) && contains(right, left, &|_, _| false)
}

/// Whether a merged bootstrap still has everything of the one before.
pub(super) fn has_all_of(merged: &str, before: &str) -> Result<bool, MergeError> {
    let (merged, before) = (Document::read(merged)?, Document::read(before)?);
    let is_ours = |document: &Document<'_>, id: Id| {
        is_our_filter(document, id)
            || counts_connections(document, id)
            || is_gate_listener(document, id)
            || document.text_of(id, "name") == Some(ADMIN_CLUSTER)
                && document.field(id, "load_assignment").is_some()
    };
    Ok(contains((&merged, merged.root()), (&before, before.root()), &is_ours))
}

/// A value of a document.
type Value<'d> = (&'d Document<'d>, Id);

/// Whether the first value has all of the second, but for items of lists that are left out; its
/// maps may have more fields.
fn contains(
    all: Value<'_>,
    part: Value<'_>,
    is_left_out: &dyn Fn(&Document<'_>, Id) -> bool,
) -> bool {
    match (all.0.kind(all.1), part.0.kind(part.1)) {
        (Some(NodeKind::Scalar(one, _)), Some(NodeKind::Scalar(two, _))) => one == two,
        (Some(NodeKind::List(_)), Some(NodeKind::List(_))) => {
            let [alls, parts] = [all, part].map(|(document, list)| {
                let items = document.items(list).iter().copied();
                items.filter(|item| !is_left_out(document, *item)).collect::<Vec<Id>>()
            });
            let mut pairs = alls.iter().zip(&parts);
            alls.len() == parts.len()
                && pairs.all(|(one, two)| contains((all.0, *one), (part.0, *two), is_left_out))
        }
        (Some(NodeKind::Map(_)), Some(NodeKind::Map(entries))) => {
            entries.iter().all(|(key, value)| {
                let name = part.0.scalar(*key);
                let mut fields = all.0.entries(all.1).iter();
                let field = fields.find(|(key, _)| all.0.scalar(*key) == name);
                field.is_some_and(|(_, field)| {
                    contains((all.0, *field), (part.0, *value), is_left_out)
                })
            })
        }
        _ => false,
    }
}
