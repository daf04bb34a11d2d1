//! The streams of many pods, and for each pod whether its list is complete. Pure.

use std::cmp::Reverse;

use serde::Serialize;

use crate::answers::answer::{Answer, Detail, reason};
use crate::pods::facts::PodFacts;
use laststream_gate::Stream;
use laststream_gate::text::many;

/// The numbers of a pod's streams, and whether its list is complete.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PodListing {
    pub namespace: String,
    pub pod: String,
    /// Its streams in flight; `None` if it has not answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u64>,
    /// Its streams that hold the drain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holding: Option<u64>,
    /// The number of streams in its list; `None` without a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listed: Option<u64>,
    pub complete: bool,
    /// Why its list is not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The streams of many pods.
#[derive(Debug, Clone, Serialize)]
pub struct Listing {
    pub complete: bool,
    /// The pods whose streams are counted, and those that have not answered.
    pub pods: Vec<PodListing>,
    /// The streams, the oldest first.
    pub streams: Vec<PodStream>,
}

impl Listing {
    /// A list of at most `limit` streams. Each gate was asked for that many.
    pub fn of(answers: &[(PodFacts, Answer)], limit: u32) -> Self {
        let pods: Vec<PodListing> =
            answers.iter().filter_map(|(pod, answer)| PodListing::of(pod, answer, limit)).collect();
        let streams = oldest(answers, usize::try_from(limit).unwrap_or(usize::MAX));
        let mut listing = Self { complete: false, pods, streams };
        listing.complete = listing.left_out() == 0 && listing.pods.iter().all(|pod| pod.complete);
        listing
    }

    /// The number of streams that pods have listed and that are beyond the limit.
    pub fn left_out(&self) -> u64 {
        let streams: u64 = self.pods.iter().filter_map(|pod| pod.listed).sum();
        streams.saturating_sub(self.streams.len() as u64)
    }
}

impl PodListing {
    /// `None` for a proxy without laststream, and for one that does not run.
    fn of(pod: &PodFacts, answer: &Answer, limit: u32) -> Option<Self> {
        let (in_flight, holding) = match answer {
            Answer::Detail(detail) => {
                (Some(detail.status.in_flight()), Some(detail.status.holding))
            }
            Answer::Stats(stats) if stats.counts() || stats.state.is_some() => {
                (Some(stats.total()), stats.holding)
            }
            Answer::Silent(_) => (None, None),
            Answer::Stats(_) | Answer::Unasked => return None,
        };
        let length = listed(answer).map(|streams| streams.len() as u64);
        let why = missing(answer, limit);
        Some(Self {
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            in_flight,
            holding,
            listed: length,
            complete: why.is_none(),
            why,
        })
    }

    /// A sentence on why the pod's list is not complete.
    pub fn warning(&self) -> Option<String> {
        let why = self.why.as_ref()?;
        let pod = format!("{}/{}", self.namespace, self.pod);
        Some(match (self.listed, self.in_flight) {
            (Some(listed), Some(in_flight)) => {
                let streams = many(in_flight, "stream");
                format!("{pod} lists {listed}, and counts {streams} in flight: {why}")
            }
            (_, Some(in_flight)) => {
                format!("{pod} does not list its streams: {in_flight} in flight; {why}")
            }
            (_, None) => format!("{pod} does not list its streams: {why}"),
        })
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct PodStream {
    pub namespace: String,
    pub pod: String,
    #[serde(flatten)]
    pub stream: Stream,
}

impl PodStream {
    fn of(pod: &PodFacts, mut stream: Stream) -> Self {
        // A gate's answer must not replace the name of its pod.
        stream.other.retain(|name, _| !matches!(name.as_str(), "namespace" | "pod"));
        Self { namespace: pod.namespace.clone(), pod: pod.name.clone(), stream }
    }
}

/// The streams of all pods, the oldest first.
pub(crate) fn oldest(answers: &[(PodFacts, Answer)], limit: usize) -> Vec<PodStream> {
    let of_pod = |(pod, answer): &(PodFacts, Answer)| {
        let streams = listed(answer).unwrap_or_default().iter();
        streams.map(|stream| PodStream::of(pod, stream.clone())).collect::<Vec<_>>()
    };
    let mut all: Vec<PodStream> = answers.iter().flat_map(of_pod).collect();
    all.sort_by_key(|stream| Reverse(stream.stream.age_ms));
    all.truncate(limit);
    all
}

fn listed(answer: &Answer) -> Option<&[Stream]> {
    let Answer::Detail(detail) = answer else { return None };
    detail.streams.as_ref().ok().map(|streams| streams.streams.as_slice())
}

/// Why the answer does not list all streams.
pub fn missing(answer: &Answer, limit: u32) -> Option<String> {
    match answer {
        Answer::Detail(detail) => missing_of_gate(detail, limit),
        Answer::Stats(stats) => {
            Some(stats.why_unasked().unwrap_or_else(|| "it has no gate".to_owned()))
        }
        Answer::Silent(why) => Some(why.clone()),
        Answer::Unasked => None,
    }
}

fn missing_of_gate(Detail { status, streams }: &Detail, limit: u32) -> Option<String> {
    let streams = match streams {
        Ok(streams) => streams,
        Err(why) => return Some(why.clone()),
    };
    let length = streams.streams.len() as u64;
    // Streams begin and end between the two answers, so a higher count shows missing streams only
    // if the list has reached the limit.
    let is_cut = length >= u64::from(limit) && streams.holding.max(status.in_flight()) > length;
    match (is_cut, streams.complete) {
        (true, _) => Some(format!("these are the oldest, and `--limit` is {limit}")),
        (false, true) => None,
        (false, false) => {
            let why = reason(&status.count).unwrap_or("not all counters have answered in time");
            Some(why.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::stats::Stats;

    /// The answer of a gate with this word for its count, and this many streams in flight and
    /// listed.
    fn gate(count: &str, in_flight: u64, listed: usize, complete: bool) -> Answer {
        let status = serde_json::json!({
            "state": "serving", "reason": "r", "count": count, "holding": in_flight,
            "scopes": [{ "scope": "inbound", "in_flight": in_flight, "begun": 9 }],
        });
        let stream = serde_json::json!({ "scope": "inbound", "age_ms": 1000 });
        let streams = serde_json::json!({
            "state": "serving", "holding": in_flight, "complete": complete,
            "streams": vec![stream; listed],
        });
        Answer::Detail(Box::new(Detail {
            status: serde_json::from_value(status).unwrap(),
            streams: Ok(serde_json::from_value(streams).unwrap()),
        }))
    }

    fn of(answer: Answer) -> Listing {
        let pod = PodFacts { namespace: "n".into(), name: "a".into(), ..PodFacts::default() };
        Listing::of(&[(pod, answer)], 2)
    }

    fn warning(answer: Answer) -> Option<String> {
        let listing = of(answer);
        let warning = listing.pods.first().and_then(PodListing::warning);
        assert_eq!(listing.complete, warning.is_none(), "{warning:?}");
        warning
    }

    #[test]
    fn a_warning_names_the_missing_streams() {
        assert_eq!(warning(gate("exact", 1, 1, true)), None);
        assert_eq!(warning(gate("exact", 5, 1, true)), None, "four have ended meanwhile");
        let cut = "n/a lists 2, and counts 5 streams in flight: these are the oldest, and \
            `--limit` is 2";
        assert_eq!(warning(gate("exact", 5, 2, false)).as_deref(), Some(cut));
        assert_eq!(warning(gate("exact", 5, 2, true)).as_deref(), Some(cut), "exempt streams");
        let late = "n/a lists 0, and counts 5 streams in flight: not all counters have answered in \
            time";
        assert_eq!(warning(gate("exact", 5, 0, false)).as_deref(), Some(late));
        let partial = warning(gate("partial", 0, 0, false)).unwrap_or_default();
        assert!(partial.contains("that no counter knows"), "{partial}");
        let silent = warning(Answer::Silent("refused".into()));
        assert_eq!(silent.as_deref(), Some("n/a does not list its streams: refused"));
        let page = "laststream_streams_in_flight_inbound{} 2\n";
        let stats = Stats { gate_error: Some("refused".into()), ..Stats::read(page) };
        let without = warning(Answer::Stats(stats));
        let expected = "n/a does not list its streams: 2 in flight; it has no gate";
        assert_eq!(without.as_deref(), Some(expected));
    }

    #[test]
    fn a_proxy_without_laststream_has_nothing_to_list() {
        for answer in [Answer::Stats(Stats::default()), Answer::Unasked] {
            assert!(of(answer).pods.is_empty());
        }
    }

    #[test]
    fn streams_beyond_the_limit_are_counted() {
        let pod = |name: &str| PodFacts { name: name.into(), ..PodFacts::default() };
        let answers = ["a", "b"].map(|name| (pod(name), gate("exact", 2, 2, true)));
        let listing = Listing::of(&answers, 3);
        assert_eq!((listing.streams.len(), listing.left_out()), (3, 1));
        assert!(!listing.complete && listing.pods.iter().all(|pod| pod.complete));
        assert!(Listing::of(&answers, 4).complete);
    }
}
