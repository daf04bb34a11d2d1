//! Checks which kinds of streams are ended or exempt. The rest of the section is checked by the
//! module's own parser.

use serde_json::{Value, json};

use super::counting::of_the_filter;
use crate::checker::Checker;
use crate::file::{Drain, End, EndKind, File, LongLived};

/// The counters keep the ages of streams if the gate asks for them.
fn with_ages(count: Option<Value>, drain: &Drain) -> Option<Value> {
    if drain.long_lived_after.is_none() {
        return count;
    }
    let mut count = count.unwrap_or_else(|| json!({}));
    if let Some(members) = count.as_object_mut() {
        members.insert("ages".into(), true.into());
    }
    Some(count)
}

impl Checker {
    /// Checks the section `end`. Returns `count` for the counters, and whether long-lived streams
    /// hold the drain.
    pub(super) fn end(&mut self, file: &File) -> (Option<Value>, LongLived) {
        let drain = &file.drain;
        let count = with_ages(file.count.clone().and_then(of_the_filter), drain);
        let of_drain = drain.long_lived.unwrap_or_default();
        let Some(end) = &file.end else { return (count, of_drain) };
        let mut count = count.unwrap_or_else(|| json!({}));
        let exempt = self.exempt_switches(end);
        if !exempt.is_empty() {
            self.contradictions_of_exempt(&exempt, drain, &count);
        }
        self.contradictions_of_end(end, drain, &count, &exempt);
        if let Some(members) = count.as_object_mut() {
            members.insert("kinds".into(), true.into());
            if !exempt.is_empty()
                && let long_lived = members.entry("long_lived").or_insert_with(|| json!({}))
                && let Some(rules) = long_lived.as_object_mut()
            {
                rules.extend(exempt.iter().map(|(_, switch)| ((*switch).to_owned(), true.into())));
            }
        }
        let long_lived = if exempt.is_empty() { of_drain } else { LongLived::Exempt };
        (Some(count), long_lived)
    }

    fn exempt_switches(&mut self, end: &End) -> Vec<(&'static str, &'static str)> {
        let mut exempt = Vec::new();
        for (name, kind, switch) in kinds(end) {
            match (kind, switch) {
                (Some(EndKind::Exempt), Some(switch)) => exempt.push((name, switch)),
                (Some(EndKind::Exempt), None) => self.problem(
                    &format!("end.{name}"),
                    "`exempt` is for websocket, grpc and event_stream: write `wait` or `end`, and \
                     name single paths under `count.long_lived` with `drain.long_lived: exempt`",
                ),
                _ => {}
            }
        }
        exempt
    }

    /// A kind that is exempt makes all long-lived streams exempt, so other rules of
    /// `count.long_lived` need an explicit `drain.long_lived: exempt`.
    fn contradictions_of_exempt(&mut self, exempt: &[(&str, &str)], drain: &Drain, count: &Value) {
        let names: Vec<&str> = exempt.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        if drain.long_lived == Some(LongLived::Wait) {
            self.problem(
                "drain.long_lived",
                format!(
                    "`wait` contradicts `end`, which exempts {names}: take this line out, or \
                     write `wait` there, too"
                ),
            );
        } else if drain.long_lived.is_none() && has_other_rules(count, exempt) {
            self.problem(
                "end",
                format!(
                    "exempts {names}, and then the other streams under `count.long_lived` do not \
                     hold the drain either: write `drain.long_lived: exempt` if that is meant, \
                     else take those rules out"
                ),
            );
        }
    }

    /// A kind that is exempt from the drain cannot be ended.
    fn contradictions_of_end(
        &mut self,
        end: &End,
        drain: &Drain,
        count: &Value,
        exempt: &[(&str, &str)],
    ) {
        let is_exempting = drain.long_lived == Some(LongLived::Exempt) || !exempt.is_empty();
        for (name, kind, switch) in kinds(end).into_iter().filter(|_| is_exempting) {
            let switch = switch.filter(|switch| count["long_lived"][*switch] == true);
            if let (Some(EndKind::End), Some(switch)) = (kind, switch) {
                self.problem(
                    &format!("end.{name}"),
                    format!(
                        "`end` contradicts `count.long_lived.{switch}`, because long-lived streams \
                         are exempt from the drain: take one of them out"
                    ),
                );
            }
        }
    }
}

/// A kind: its name, its value unless the policy does not set one, and its switch in
/// `count.long_lived` if it has one.
type Kind = (&'static str, Option<EndKind>, Option<&'static str>);

pub(crate) fn kinds(end: &End) -> [Kind; 5] {
    [
        ("waiting", end.waiting, None),
        ("websocket", end.websocket, Some("upgrades")),
        ("grpc", end.grpc, Some("grpc")),
        ("event_stream", end.event_stream, Some("event_streams")),
        ("other", end.other, None),
    ]
}

/// Whether rules for long-lived streams are on, apart from the switches of these kinds.
pub(crate) fn has_other_rules(count: &Value, exempt: &[(&str, &str)]) -> bool {
    let rules = count["long_lived"].as_object();
    rules.is_some_and(|rules| {
        rules.iter().any(|(name, value)| {
            let is_set = *value == true || value.as_array().is_some_and(|list| !list.is_empty());
            is_set && !exempt.iter().any(|(_, switch)| *switch == name)
        })
    })
}
