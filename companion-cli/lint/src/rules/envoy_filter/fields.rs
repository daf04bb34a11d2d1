//! The fields of what patches hold: part of LS102.

use crate::envoy_filter::Patch;
use crate::node::{Node, camel};

/// For each `applyTo` the name and the fields of its message, from go-control-plane's modules envoy
/// 1.37 to 1.40.
const MESSAGES: &str = include_str!("fields.txt");
/// Keys that are no fields.
const OTHERS: [&str; 2] = ["@type", "<<"];

/// The fields of a patch's value that istiod drops, each with the reason.
pub(super) fn dropped(patch: Patch<'_>) -> impl Iterator<Item = (Node<'_>, String)> {
    let messages = MESSAGES.lines().filter_map(|line| line.split_once(' '));
    let known = messages.filter(|(kind, _)| *kind == patch.apply_to()).map(|(_, known)| known);
    let (message, fields) = known.filter_map(|known| known.split_once(' ')).next().unzip();
    let is_known = move |key: &str| {
        let mut fields = fields.unwrap_or_default().split(' ');
        OTHERS.contains(&key) || fields.any(|field| field == key || camel(field) == key)
    };
    let value = message.and_then(|_| patch.value());
    value.into_iter().flat_map(Node::entries).filter(move |(key, _)| !is_known(key)).map(
        move |(key, value)| {
            let why = match key {
                "config" => "write `typed_config`".to_owned(),
                _ => format!("a {} has no such field", message.unwrap_or_default()),
            };
            (value.key().unwrap_or(value), format!("istiod drops `{key}`: {why}"))
        },
    )
}
