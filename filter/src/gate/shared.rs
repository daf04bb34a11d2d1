//! The values that the gates of all workers share, as texts in shared data. Modules of two versions
//! run side by side while the module is replaced, so a text keeps its version and its places, and
//! has new numbers only at its end. Each gate has its own record, because two gates on one Envoy
//! wait for different streams, and neither may open the other.

use laststream_drain::ends::EndProgress;
use laststream_drain::pacing::QueryPacing;
use laststream_drain::phase::Phase;
use laststream_drain::record::Record;
use laststream_drain::step::Step;
use strum::VariantArray as _;

use crate::config::wire::Scope;
use crate::host::{Control, compare_and_set_shared};
use crate::parse::{self, digits};
use crate::shared_text::{self, SharedText, after_version, numbers_to_text};

/// The queries of all gates to Envoy. The name is that of earlier versions.
pub(super) const PACING: &str = "laststream.questions";
/// The number of healed leaks. Only the gate that increments it heals the leak.
pub(super) const HEALS: &str = "laststream.heals";

/// The keys of one gate.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    pub(super) record: String,
    pub(super) notify: String,
    pub(super) ends: String,
    pub(super) total: String,
    evaluated: String,
}

impl Keys {
    /// The keys of the gate with these scopes, in the filter that is being configured. The name of
    /// the filter stays the same when the configuration or the module changes, so a drain goes on.
    pub(super) fn of_this_filter(host: &impl Control, scopes: &[Scope]) -> Self {
        let mut record = String::from("laststream.gate");
        for scope in Scope::VARIANTS.iter().filter(|scope| scopes.contains(scope)) {
            record.push_str(&format!(".{scope}"));
        }
        for property in ["plugin_name", "plugin_root_id"] {
            let name = host.property(property).unwrap_or_default();
            record.push_str(&format!(" {}", String::from_utf8_lossy(&name)));
        }
        Self {
            notify: format!("{record} notify"),
            ends: format!("{record} ends"),
            total: format!("laststream.requests {record}"),
            evaluated: format!("laststream.routine.{record}"),
            record,
        }
    }

    /// Claims the next periodic evaluation for this worker, if it is due. One worker evaluates for
    /// all, which tick a little apart.
    pub(super) fn claim_periodic_evaluation(&self, host: &impl Control, every: u64) -> bool {
        let now = host.monotonic_time();
        let mut is_claimed = false;
        let is_changed = compare_and_set_shared(host, &self.evaluated, &mut |text| {
            let slack = laststream_drain::timing::EVALUATION_SLACK;
            let is_due = |last: u64| now.saturating_sub(last).saturating_add(slack) >= every;
            is_claimed = text.and_then(digits).is_none_or(is_due);
            is_claimed.then(|| now.to_string().into_bytes())
        });
        is_claimed && is_changed
    }
}

/// The record as numbers separated by blanks, with the reason last.
impl SharedText for Record {
    fn to_text(&self) -> String {
        let [begin, finish] = [self.begin, self.finish].map(Step::to_numbers);
        let times = [self.began, self.deadline, self.ended];
        let counts = [self.begun_before, self.begun_last, self.quiet_since];
        let mut numbers = vec![self.phase as u64];
        for part in [times, counts, begin, finish] {
            numbers.extend(part);
        }
        numbers.push(self.logged_at);
        numbers_to_text("2", &numbers) + " " + &self.force_reason
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = after_version(text, "2")?.splitn(15, ' ');
        let [phase]: [u64; 1] = parse::numbers(&mut words)?;
        let [began, deadline, ended] = parse::numbers(&mut words)?;
        let [begun_before, begun_last, quiet_since] = parse::numbers(&mut words)?;
        let begin = Step::from_numbers(parse::numbers(&mut words)?)?;
        let finish = Step::from_numbers(parse::numbers(&mut words)?)?;
        let [logged_at] = parse::numbers(&mut words)?;
        Some(Self {
            phase: *Phase::VARIANTS.get(usize::try_from(phase).ok()?)?,
            began,
            deadline,
            ended,
            begun_before,
            begun_last,
            quiet_since,
            begin,
            finish,
            logged_at,
            force_reason: words.next().unwrap_or_default().into(),
        })
    }
}

impl SharedText for QueryPacing {
    fn to_text(&self) -> String {
        let Self { began, ended, took, busy, limit } = self;
        format!("{began} {ended} {took} {busy} {limit}")
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let [began, ended, took, busy] = parse::numbers(&mut words)?;
        // Earlier versions have no limit.
        let limit = words.next().and_then(|word| word.parse().ok()).unwrap_or(u64::MAX);
        Some(Self { began, ended, took, busy, limit })
    }
}

/// The progress of the call to the app in the drain that began at `began`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Notification {
    pub(super) began: u64,
    pub(super) step: Step,
}

impl Default for Notification {
    fn default() -> Self {
        Self { began: 0, step: Step::Due }
    }
}

impl SharedText for Notification {
    fn to_text(&self) -> String {
        let [kind, since, tries] = self.step.to_numbers();
        numbers_to_text("1", &[self.began, kind, since, tries])
    }

    fn parse(text: &str) -> Option<Self> {
        let [began, step @ ..]: [_; 4] = parse::numbers(&mut after_version(text, "1")?.split(' '))?;
        Some(Self { began, step: Step::from_numbers(step)? })
    }
}

impl Notification {
    /// The progress in this drain. That of an earlier drain is ignored.
    pub(super) fn step_of(self, began: u64) -> Step {
        if self.began == began { self.step } else { Step::Due }
    }
}

/// The number of places that only earlier versions use. They are written as 0.
const UNUSED: usize = 13;

impl SharedText for EndProgress {
    fn to_text(&self) -> String {
        let mut numbers = vec![self.began, self.last, self.ordered];
        numbers.extend([0; UNUSED]);
        numbers.push(self.stopped);
        numbers_to_text("4", &numbers)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = after_version(text, "4")?.split(' ');
        let [began, last, ordered] = parse::numbers(&mut words)?;
        let _: [u64; UNUSED] = parse::numbers(&mut words)?;
        let [stopped] = parse::numbers(&mut words)?;
        Some(Self { began, last, ordered, stopped })
    }
}

/// The total number of requests by Envoy's own count: the newest that this gate has got on any
/// worker. All workers use this one number, because a difference between two workers' answers would
/// look like a request that has begun.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Total {
    /// The beginning of the query.
    pub(super) at: u64,
    pub(super) requests: u64,
}

impl SharedText for Total {
    fn to_text(&self) -> String {
        format!("{} {}", self.at, self.requests)
    }

    fn parse(text: &str) -> Option<Self> {
        let [at, requests] = parse::numbers(&mut text.split(' '))?;
        Some(Self { at, requests })
    }
}

/// Replaces a shared value, if it is still the one that was read.
pub(super) fn replace<T: SharedText>(host: &impl Control, key: &str, from: &T, to: T) -> bool {
    shared_text::claim(host, key, &mut |value: &mut T| {
        let is_same = value == from;
        if is_same {
            value.clone_from(&to);
        }
        is_same
    })
}

pub(super) fn begin_query(host: &impl Control, limit: u64) -> bool {
    let now = host.monotonic_time();
    shared_text::claim(host, PACING, &mut |pacing: &mut QueryPacing| pacing.begin(now, limit))
}

pub(super) fn end_query(host: &impl Control) {
    let now = host.monotonic_time();
    shared_text::update(host, PACING, &mut |pacing: &mut QueryPacing| pacing.end(now));
}

#[cfg(test)]
mod tests {
    use core::fmt::Debug;

    use laststream_drain::step::Step;
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{EndProgress, Notification, Phase, QueryPacing, Record, SharedText, Total};

    fn is_kept<T: SharedText + Debug>(value: &T, text: &str) {
        assert_eq!(value.to_text(), text);
        assert_eq!(T::parse(text).as_ref(), Some(value), "{text}");
    }

    /// The texts are those of the version before, so a drain goes on through an upgrade, and
    /// through a downgrade.
    #[wasm_bindgen_test(unsupported = test)]
    fn every_value_keeps_its_text() {
        let record = Record {
            phase: Phase::Drained,
            began: 1,
            deadline: 2,
            ended: 3,
            begun_before: 4,
            begun_last: 5,
            quiet_since: 6,
            begin: Step::Done,
            finish: Step::UnderWay { since: 7, tries: 2 },
            logged_at: 8,
            force_reason: "why not".into(),
        };
        is_kept(&record, "2 2 1 2 3 4 5 6 2 0 0 1 7 2 8 why not");
        let sent = Record { finish: Step::Sent { since: 7, tries: 2 }, ..record };
        is_kept(&sent, "2 2 1 2 3 4 5 6 2 0 0 1 7 1002 8 why not");
        is_kept(&QueryPacing { began: 1, ended: 2, took: 3, busy: 4, limit: 5 }, "1 2 3 4 5");
        assert_eq!(QueryPacing::parse("1 2 3 4").map(|pacing| pacing.limit), Some(u64::MAX));
        let notification = Notification { began: 9, step: Step::Paused { until: 7, tries: 1 } };
        is_kept(&notification, "1 9 4 7 1");
        let ends = EndProgress { began: 1, last: 2, ordered: 3, stopped: 4 };
        is_kept(&ends, "4 1 2 3 0 0 0 0 0 0 0 0 0 0 0 0 0 4");
        let earlier = "4 1 2 3 10 11 12 13 14 0 0 0 0 0 0 0 0 4 later";
        assert_eq!(EndProgress::parse(earlier), Some(ends));
        is_kept(&Total { at: 1, requests: 2 }, "1 2");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn texts_of_other_versions_are_ignored() {
        for text in ["", "1", "3 2 1", "2 9 1 2 3 4 5 6 2 0 0 1 7 2 8 ", "2 x", "\u{fe}"] {
            assert_eq!(Record::parse(text), None, "{text}");
            assert_eq!(EndProgress::parse(text), None, "{text}");
            assert_eq!(Notification::parse(text), None, "{text}");
        }
    }
}
