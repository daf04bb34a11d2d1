//! LS351 and LS351: early header mutations that should save the peer's x-forwarded-proto.

use std::collections::HashSet;

use laststream_filter::config::wire::{ForwardedProto, ORIGINAL_HEADER, Preset};

use super::scheme_filters::{
    FORWARDED_PROTO, SupportingFilter, matcher_around, mutations, mutations_before, removes,
    restorers, writers,
};
use manifest_lint::{Checks, Findings, Inputs, Node};

pub(super) const CHECKS: Checks = &[("LS351", not_saved), ("LS351", forgeable)];

const OVERWRITES: &str = "OVERWRITE_IF_EXISTS_OR_ADD";

/// A filter that reads the saved header.
struct Reader<'g> {
    header: String,
    /// The node for a finding about the filter.
    place: Node<'g>,
    /// Whether a mutation may be in front of the filter.
    may_meet: Box<dyn Fn(&SupportingFilter<'g>) -> bool + 'g>,
}

/// laststream's filters, and Envoy's own.
fn readers<'g>(inputs: &'g Inputs) -> Vec<Reader<'g>> {
    let restorers = restorers(inputs).filter_map(|restorer| {
        let (header, place) = (saved_header(&restorer.proto)?, restorer.place);
        let may_meet = move |helper: &SupportingFilter<'g>| restorer.may_meet(helper);
        Some(Reader { header, place, may_meet: Box::new(may_meet) })
    });
    let native = native_readers(inputs).into_iter().map(|filter| {
        let place = filter.node;
        let may_meet = move |helper: &SupportingFilter<'g>| helper.may_meet(&filter);
        Reader { header: ORIGINAL_HEADER.into(), place, may_meet: Box::new(may_meet) }
    });
    restorers.chain(native).collect()
}

/// The header in which the peer's own must be saved; none if the module does not read a saved one.
fn saved_header(proto: &ForwardedProto) -> Option<String> {
    let reads_it = |preset: &Preset| !matches!(preset, Preset::Cloudfront | Preset::Nlb);
    let by_preset = proto.presets.iter().any(reads_it);
    let header = &proto.original_header;
    // The module takes both names for the saved header.
    let names_it = |name: &str| {
        name.eq_ignore_ascii_case(FORWARDED_PROTO) || name.eq_ignore_ascii_case(header)
    };
    let by_source = proto.sources.iter().any(|source| names_it(&source.header));
    let is_saved = (by_preset || by_source) && !header.eq_ignore_ascii_case(FORWARDED_PROTO);
    is_saved.then(|| header.clone())
}

/// Envoy's own filters that read the saved header, if the files show the mutations beside them.
fn native_readers(inputs: &Inputs) -> Vec<SupportingFilter<'_>> {
    let reads = |name: &Node<'_>| {
        name.text().is_some_and(|name| name.eq_ignore_ascii_case(ORIGINAL_HEADER))
    };
    let names = inputs.keyed_field("header_name").filter(reads);
    let around: HashSet<_> = names.flat_map(Node::upwards).collect();
    let has_name = |writer: &SupportingFilter<'_>| {
        matcher_around(writer.node).is_some_and(|up| around.contains(&up))
    };
    writers(inputs).filter(SupportingFilter::is_placed).filter(has_name).collect()
}

/// The mutation that writes a header.
fn append_of<'g>(list: Node<'g>, header: &str) -> Option<Node<'g>> {
    list.items().find(|item| appended(*item).is_some_and(|name| name.eq_ignore_ascii_case(header)))
}

fn appended(mutation: Node<'_>) -> Option<&str> {
    mutation.text_of("append.header.key")
}

/// The reason why this mutation does not save the peer's own header; none if it does.
fn saves_nothing(mutation: Node<'_>) -> Option<&'static str> {
    let value = mutation.text_of("append.header.value").unwrap_or_default();
    if !is_original(value) {
        return Some("its value is not `%REQ(x-forwarded-proto)%`");
    }
    let changes = |item: Node<'_>| {
        let overwrites = |name: &str| name.eq_ignore_ascii_case(FORWARDED_PROTO);
        removes(item, FORWARDED_PROTO) || appended(item).is_some_and(overwrites)
    };
    let is_gone = mutations_before(mutation).any(changes);
    is_gone.then_some("`x-forwarded-proto` is removed or overwritten before")
}

/// Whether a value is the peer's own header, in either spelling of the operator, with an optional
/// second header and length: `%REQ(X?Y):Z%`.
fn is_original(value: &str) -> bool {
    let operator = value.strip_suffix('%').unwrap_or_default();
    let operands =
        ["%REQ(", "%REQUEST_HEADER("].iter().find_map(|start| operator.strip_prefix(start));
    let operands = operands.filter(|operands| !operands.contains('%'));
    let name = operands.and_then(|operands| operands.split(['?', ')']).next());
    name.is_some_and(|name| name.eq_ignore_ascii_case(FORWARDED_PROTO))
}

fn not_saved<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let mutations = mutations(inputs);
    let mut reported = Vec::new();
    for reader in readers(inputs) {
        let mut first = None;
        let is_saved = mutations
            .iter()
            .filter(|helper| (reader.may_meet)(helper))
            .filter_map(|helper| append_of(helper.node, &reader.header))
            .any(|append| {
                let why = saves_nothing(append);
                first = first.or(why.map(|why| (append, why)));
                why.is_none()
            });
        match first {
            _ if is_saved => {}
            None => findings.at(
                reader.place,
                format!("no early header mutation of these files writes `{}`", reader.header),
            ),
            Some((append, why)) if !reported.contains(&append) => {
                reported.push(append);
                findings.at(append, why);
            }
            Some(_) => {}
        }
    }
}

fn forgeable<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let readers = readers(inputs);
    for helper in mutations(inputs) {
        let forgery = readers
            .iter()
            .filter(|reader| (reader.may_meet)(&helper))
            .map(|reader| reader.header.as_str())
            .find_map(|header| Some((append_of(helper.node, header)?, header)));
        let Some((append, header)) = forgery else { continue };
        let is_overwritten = append.text_of("append.append_action") == Some(OVERWRITES)
            && append.fields("append.keep_empty_value").is_some_and(Node::is_true);
        let is_removed = || mutations_before(append).any(|item| removes(item, header));
        if !is_overwritten && !is_removed() {
            findings.at(append, format!("`{header}` is neither removed before nor overwritten"));
        }
    }
}
