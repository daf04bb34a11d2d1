//! Merges laststream into a bootstrap that the user has written: the filters into every connection
//! manager, the gate's listener, and the cluster that the gate asks.
//!
//! The text is changed at these places only, so comments and order stay. Afterwards everything
//! else is compared, so a text in an unusual form is refused rather than damaged.

mod compare;
mod document;
mod edits;
mod error;
mod parts;

use laststream_policy::Policy;

use super::output::diff;
use super::tcp;
use compare::{has_all_of, is_same};
use document::{Document, Id};
use edits::Edits;
pub use error::{IntoError, MergeError};
use laststream_base::yaml::Map;
use parts::{Parts, counts_connections, is_gate_listener, is_our_filter, tcp_chains};

/// A bootstrap with laststream in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    pub text: String,
    /// What the merge changes, as a unified diff; empty if it changes nothing.
    pub diff: String,
}

/// Merges a policy into the text of a bootstrap; `name` is the file's, for the diff. A second merge
/// changes nothing.
///
/// # Errors
/// The policy has a part that cannot be merged; or the text is no bootstrap with a connection
/// manager, or has something else under a name or port that laststream needs.
pub fn merge(policy: &Policy, name: &str, text: &str) -> Result<Merged, IntoError> {
    let merged = merged(policy, text)?;
    let again = self::merged(policy, &merged).unwrap_or_default();
    if again != merged || !has_all_of(&merged, text).unwrap_or_default() {
        let message = "has a form that cannot be changed safely: copy the parts from `laststream \
            render envoy`";
        return Err(MergeError::of(message).into());
    }
    let diff = if merged == text { String::new() } else { diff(name, text, &merged) };
    Ok(Merged { text: merged, diff })
}

fn merged(policy: &Policy, text: &str) -> Result<String, IntoError> {
    let document = &Document::read(text)?;
    let parts = Parts::of(policy, document)?;
    let mut edits = Edits::default();
    for list in filter_lists(document)? {
        put_in_front(document, list, &parts.filters, is_our_filter, &mut edits)?;
    }
    let listeners = listeners(document)?;
    for (list, is_counted) in tcp_chains(document, listeners, &policy.tcp)? {
        let counted: Vec<Map> = is_counted.then(tcp::counted).into_iter().collect();
        put_in_front(document, list, &counted, counts_connections, &mut edits)?;
    }
    let old = document.items(listeners).iter().find(|old| is_gate_listener(document, **old));
    match (&parts.gate, old) {
        (Some(listener), Some(old)) if is_same(document, *old, listener) => {}
        (listener, old) => {
            old.map(|old| edits.remove(document, *old)).transpose()?;
            if let Some(listener) = listener {
                edits.append(document, listeners, listener);
            }
        }
    }
    if let Some(cluster) = &parts.cluster {
        match document.field(document.root(), "static_resources.clusters") {
            Some(clusters) => edits.append(document, clusters, cluster),
            None => edits.add_field(document, resources(document)?, &parts::clusters(cluster)),
        }
    }
    if let Some(admin) = &parts.admin {
        edits.add_field(document, document.root(), admin);
    }
    Ok(edits.apply(text))
}

/// Puts the filters in front of all others of a list, in place of those that were merged before.
fn put_in_front(
    document: &Document<'_>,
    list: Id,
    filters: &[Map],
    is_ours: fn(&Document<'_>, Id) -> bool,
    edits: &mut Edits,
) -> Result<(), MergeError> {
    let items = document.items(list);
    let old: Vec<Id> = items.iter().copied().filter(|item| is_ours(document, *item)).collect();
    let is_there = old.len() == filters.len()
        && items.starts_with(&old)
        && old.iter().zip(filters).all(|(old, new)| is_same(document, *old, new));
    if is_there {
        return Ok(());
    }
    old.into_iter().try_for_each(|old| edits.remove(document, old))?;
    edits.prepend(document, list, filters);
    Ok(())
}

fn resources(document: &Document<'_>) -> Result<Id, MergeError> {
    document
        .field(document.root(), "static_resources")
        .ok_or_else(|| MergeError::of("is no bootstrap of Envoy: it has no `static_resources`"))
}

fn listeners(document: &Document<'_>) -> Result<Id, MergeError> {
    document.field(resources(document)?, "listeners").ok_or_else(|| {
        MergeError::of(
            "has no `static_resources.listeners`: merge the file that has the listeners, or copy \
                the filters from `laststream render envoy`",
        )
    })
}

/// The lists of HTTP filters of all connection managers but the gate's, and those of upgrades,
/// which replace them.
fn filter_lists(document: &Document<'_>) -> Result<Vec<Id>, MergeError> {
    let mut managers = Vec::new();
    for listener in document.items(listeners(document)?) {
        if !is_gate_listener(document, *listener) {
            document.descend(*listener, &mut |id| {
                let name = document.text_of(id, "@type").unwrap_or_default();
                if name.ends_with(".HttpConnectionManager") {
                    managers.push(id);
                }
            });
        }
    }
    if managers.is_empty() {
        return Err(MergeError::of(
            "has no HTTP connection manager in `static_resources.listeners`, so there is nothing \
                to count",
        ));
    }
    let mut lists = Vec::new();
    for manager in managers {
        let filters = document.field(manager, "http_filters").ok_or_else(|| MergeError {
            line: Some(document.line(manager)),
            message: "the connection manager has no `http_filters` of its own (merge keys are not \
                followed): write them here"
                .into(),
        })?;
        let upgrades = document.field(manager, "upgrade_configs").into_iter();
        let upgrades = upgrades.flat_map(|upgrades| document.items(upgrades));
        let of_upgrades = upgrades.filter_map(|upgrade| document.field(*upgrade, "filters"));
        for list in [filters].into_iter().chain(of_upgrades) {
            if !lists.contains(&list) {
                lists.push(list);
            }
        }
    }
    Ok(lists)
}

#[cfg(test)]
mod tests;
