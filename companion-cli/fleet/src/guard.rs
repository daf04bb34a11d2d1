//! Keeps Karpenter away from pods with long streams, for a bounded time: whether a pod is guarded,
//! and whether that changes. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::edits::Edit;
use super::pod_report::Answer;
use super::pods::PodFacts;

/// The annotation with which Karpenter disrupts no node of the pod on its own account. Its value is
/// `true`, because versions before 1.12 take no other.
const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// The annotation that marks the other one as this program's own, with the time since when. It
/// outlives the other one while long streams last, so that these do not begin a new time.
pub const GUARDED_SINCE: &str = "laststream.io/guarded-since";

/// Whether a pod is guarded, by its annotations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Guard {
    #[default]
    Off,
    /// By this program, since this time.
    Since(Timestamp),
    /// This program guarded it for as long as it may.
    Spent,
    /// An operator or another program has written the annotation.
    Foreign,
}

impl Guard {
    pub(super) fn of(annotations: Option<&BTreeMap<String, String>>) -> Self {
        let text = |name: &str| annotations?.get(name).map(String::as_str);
        match (text(DO_NOT_DISRUPT), text(GUARDED_SINCE)) {
            (None, None) => Self::Off,
            (None, Some(_)) => Self::Spent,
            // A time that cannot be read is over.
            (Some("true"), Some(time)) => {
                Self::Since(time.parse().unwrap_or(Timestamp::UNIX_EPOCH))
            }
            (Some(_), _) => Self::Foreign,
        }
    }

    /// The annotations of the pod that are this program's own.
    pub(super) fn own_annotations(self) -> &'static [&'static str] {
        match self {
            Self::Since(_) => &[DO_NOT_DISRUPT, GUARDED_SINCE],
            Self::Spent => &[GUARDED_SINCE],
            Self::Off | Self::Foreign => &[],
        }
    }
}

/// Which pods are guarded, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The age from which a stream is long.
    pub age: Duration,
    /// The longest time for which a pod is guarded.
    pub at_most: Duration,
}

/// The age of the oldest stream that would hold a drain.
#[derive(Debug, Clone, Copy)]
struct Oldest {
    /// The age of the oldest known one.
    known: Option<Duration>,
    /// Whether there may be older ones.
    may_be_older: bool,
}

impl Oldest {
    fn of(answer: &Answer) -> Self {
        match answer {
            Answer::Detail(detail) => {
                let listed = detail.streams.iter().flat_map(|streams| &streams.streams);
                let known = listed.map(|stream| Duration::from_millis(stream.age_ms)).max();
                let is_complete = match known {
                    Some(_) => detail.status.counts_all(),
                    None => detail.status.held_streams() == Some(0),
                };
                Self { known, may_be_older: !is_complete }
            }
            answer => Self { known: None, may_be_older: answer.in_flight() != Some(0) },
        }
    }

    fn is_long(self, rule: Rule) -> bool {
        self.known.is_some_and(|age| age >= rule.age)
    }
}

/// Whether the pod keeps its guard, or has none, because the ages of its streams are not known.
pub fn is_unknown(pod: &PodFacts, answer: &Answer, rule: Rule) -> bool {
    let oldest = Oldest::of(answer);
    let is_guarded = pod.guard != Guard::Foreign && !pod.terminating;
    is_guarded && answer.has_gate() && oldest.may_be_older && !oldest.is_long(rule)
}

pub fn is_foreign(pod: &PodFacts) -> bool {
    pod.guard == Guard::Foreign && !pod.terminating
}

/// The change of a pod's guard.
pub fn change(pod: &PodFacts, answer: &Answer, rule: Rule, now: Timestamp) -> Option<Edit> {
    let oldest = Oldest::of(answer);
    let (is_long, is_short) = (oldest.is_long(rule), !oldest.is_long(rule) && !oldest.may_be_older);
    let at_most = SignedDuration::try_from(rule.at_most).unwrap_or(SignedDuration::MAX);
    let seconds = oldest.known.map(|age| age.as_secs());
    let edit = |annotations: Value, lowers: bool, words: String| Edit {
        pod: pod.clone(),
        lowers,
        words,
        fields: json!({
            "guarded": annotations[DO_NOT_DISRUPT] == "true", "oldest_seconds": seconds,
        }),
        annotations,
    };
    match pod.guard {
        _ if pod.terminating => None,
        Guard::Off if is_long => {
            // Whole seconds are enough.
            let since = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
            let on = json!({ DO_NOT_DISRUPT: "true", GUARDED_SINCE: since });
            let age = seconds.unwrap_or_default();
            Some(edit(on, false, format!("guarded, its oldest stream is {age} s old")))
        }
        Guard::Since(time) if now.duration_since(time) >= at_most => {
            let words = format!("not guarded any more, after {} s", at_most.as_secs());
            Some(edit(json!({ DO_NOT_DISRUPT: null }), false, words))
        }
        Guard::Since(_) if is_short => {
            let off = json!({ DO_NOT_DISRUPT: null, GUARDED_SINCE: null });
            Some(edit(off, true, "not guarded any more, no stream of it is long".to_owned()))
        }
        Guard::Spent if is_short => {
            let words = "may be guarded again, no stream of it is long".to_owned();
            Some(edit(json!({ GUARDED_SINCE: null }), true, words))
        }
        Guard::Off | Guard::Since(_) | Guard::Spent | Guard::Foreign => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stats;
    use crate::old_pods::tests::of_partial;

    const RULE: Rule = Rule { age: Duration::from_secs(60), at_most: Duration::from_secs(3600) };

    fn guard(annotations: &[(&str, &str)]) -> Guard {
        let owned = annotations.iter().map(|(name, text)| ((*name).into(), (*text).into()));
        Guard::of(Some(&owned.collect()))
    }

    #[test]
    fn only_annotations_with_the_own_mark_are_this_program_s() {
        let since = Guard::Since(Timestamp::from_second(60).unwrap());
        for (annotations, expected) in [
            (&[][..], Guard::Off),
            (&[(DO_NOT_DISRUPT, "true")], Guard::Foreign),
            (&[(DO_NOT_DISRUPT, "30m")], Guard::Foreign),
            (&[(DO_NOT_DISRUPT, "true"), (GUARDED_SINCE, "1970-01-01T00:01:00Z")], since),
            (&[(DO_NOT_DISRUPT, "4h"), (GUARDED_SINCE, "1970-01-01T00:01:00Z")], Guard::Foreign),
            (
                &[(DO_NOT_DISRUPT, "true"), (GUARDED_SINCE, "soon")],
                Guard::Since(Timestamp::UNIX_EPOCH),
            ),
            (&[(GUARDED_SINCE, "1970-01-01T00:01:00Z")], Guard::Spent),
        ] {
            assert_eq!(guard(annotations), expected, "{annotations:?}");
        }
    }

    /// A gate whose oldest listed stream has this age.
    fn aged(seconds: u64, count: &str) -> Answer {
        let mut detail = of_partial("serving", None);
        detail.status.count = count.into();
        detail.status.holding = 1;
        let stream = json!({ "scope": "inbound", "age_ms": seconds * 1000 });
        let streams = json!({ "state": "serving", "holding": 1, "streams": [stream] });
        detail.streams = Ok(serde_json::from_value(streams).unwrap());
        Answer::Detail(Box::new(detail))
    }

    /// A gate that does not list its streams, because it has a secret.
    fn secret() -> Answer {
        let mut detail = of_partial("serving", Some(1));
        detail.streams = Err("secret".into());
        Answer::Detail(Box::new(detail))
    }

    fn idle() -> Answer {
        let in_flight = BTreeMap::from([("inbound".to_owned(), 0)]);
        let count = Some("exact".to_owned());
        Answer::Stats(Stats { state: Some("serving"), in_flight, count, ..Stats::default() })
    }

    /// The guard of a pod after a look, `now` seconds after its guard has begun.
    fn after(guard: Guard, answer: &Answer, now: i64) -> Option<(Value, bool)> {
        let pod = PodFacts { guard, ..PodFacts::default() };
        let now = Timestamp::from_second(now).unwrap();
        change(&pod, answer, RULE, now).map(|edit| (edit.annotations, edit.lowers))
    }

    #[test]
    fn a_guard_begins_with_a_long_stream_and_ends_with_it_or_with_its_time() {
        let since = Guard::Since(Timestamp::UNIX_EPOCH);
        let on = json!({ DO_NOT_DISRUPT: "true", GUARDED_SINCE: "1970-01-01T00:00:10Z" });
        let off = json!({ DO_NOT_DISRUPT: null, GUARDED_SINCE: null });
        let over = json!({ DO_NOT_DISRUPT: null });
        let unmarked = json!({ GUARDED_SINCE: null });
        for (guard, answer, now, expected) in [
            (Guard::Off, aged(60, "exact"), 10, Some((on.clone(), false))),
            (Guard::Off, aged(60, "partial"), 10, Some((on, false))),
            (Guard::Off, aged(59, "exact"), 10, None),
            (Guard::Off, idle(), 10, None),
            (since, aged(60, "exact"), 3599, None),
            (since, aged(60, "exact"), 3600, Some((over.clone(), false))),
            (since, secret(), 3599, None),
            (since, secret(), 3600, Some((over.clone(), false))),
            (since, Answer::Silent("late".into()), 3600, Some((over, false))),
            (since, aged(59, "exact"), 10, Some((off.clone(), true))),
            (since, aged(59, "partial"), 10, None),
            (since, idle(), 10, Some((off, true))),
            (Guard::Spent, aged(7200, "exact"), 9999, None),
            (Guard::Spent, aged(1, "exact"), 9999, Some((unmarked, true))),
            (Guard::Foreign, aged(60, "exact"), 10, None),
            (Guard::Foreign, idle(), 10, None),
        ] {
            assert_eq!(after(guard, &answer, now), expected, "{guard:?} {answer:?} {now}");
        }
        let pod = PodFacts { terminating: true, ..PodFacts::default() };
        assert_eq!(change(&pod, &aged(60, "exact"), RULE, Timestamp::UNIX_EPOCH), None);
    }

    #[test]
    fn ages_that_are_not_known_are_reported() {
        let pod = PodFacts::default();
        for (answer, expected) in [
            (secret(), true),
            (aged(59, "partial"), true),
            (aged(60, "partial"), false),
            (aged(59, "exact"), false),
            (idle(), false),
            (Answer::Stats(Stats::default()), false),
            (Answer::Silent("late".into()), false),
        ] {
            assert_eq!(is_unknown(&pod, &answer, RULE), expected, "{answer:?}");
        }
    }
}
