//! Checks by what streams are counted: by the filter and Envoy, or by Envoy alone, which needs no
//! filter in the path of requests.

use serde_json::Value;

use crate::checker::Checker;
use crate::file::{File, Show};
use crate::placement::Site;

/// The field that says it; all others of `count` are the filter's.
const BY: &str = "by";

const OF_THE_FILTER: &str = "needs the filter, which knows each stream: take it out, or write \
    `count: {by: filter}`";
const NO_ROUTES: &str = "`envoy` needs a route of laststream's at the head of each virtual host, \
    which is not rendered here: write `filter`";
const OF_JOB: &str = "`envoy` does not count the calls that `laststream exec` waits for: write \
    `filter`";

impl Checker {
    /// Whether Envoy's own count is the only one.
    pub(super) fn by_envoy(&mut self, file: &File, site: Site<'_>) -> bool {
        let by = file.count.as_ref().and_then(|count| count.get(BY));
        match by.map(Value::as_str) {
            None | Some(Some("filter")) => return false,
            Some(Some("envoy")) => {}
            Some(_) => {
                self.problem("count.by", "is not known here: write `filter` or `envoy`");
                return false;
            }
        }
        let fields = file.count.as_ref().and_then(Value::as_object);
        let rules = fields.into_iter().flat_map(|rules| rules.keys()).filter(|key| *key != BY);
        for field in rules {
            self.problem(&format!("count.{field}"), OF_THE_FILTER);
        }
        for (field, is_written, why) in [
            ("count.by", site.facts.no_show.is_some(), NO_ROUTES),
            ("count.by", file.job.is_some(), OF_JOB),
            ("count.by", !site.has_gate, "`envoy` is for a gate, and there is none: take it out"),
            ("end", file.end.is_some(), OF_THE_FILTER),
            ("websockets", file.websockets.is_some(), OF_THE_FILTER),
            ("streams.show", file.streams.show != Show::Nothing, OF_THE_FILTER),
            ("drain.long_lived_after", file.drain.long_lived_after.is_some(), OF_THE_FILTER),
        ] {
            if is_written {
                self.problem(field, why);
            }
        }
        true
    }
}

/// The filter's own part of `count`.
pub(super) fn of_the_filter(mut count: Value) -> Option<Value> {
    let rules = count.as_object_mut();
    let is_empty = rules.is_some_and(|rules| rules.remove(BY).is_some() && rules.is_empty());
    (!is_empty).then_some(count)
}
