//! The result of a lane: computed from what the client got and the time at which Envoy ended, then
//! compared with the expected result.

use serde::Serialize;

use super::client::StreamEnd;
use super::lane::{EndedBy, Lane};
use super::record::{Event, HookEnd};
use super::times::Times;

/// The result of a lane. Times are seconds since both streams began.
#[derive(Debug, Clone, Serialize)]
pub struct LaneResult {
    pub lane: Lane,
    pub about: &'static str,
    pub request: StreamEnd,
    pub websocket: StreamEnd,
    /// The number of times that an app did the work of the request.
    pub executions: usize,
    pub deleted: f64,
    pub envoy_ended: f64,
    pub ended_by: EndedBy,
    pub why: String,
    pub surprises: Vec<String>,
    pub events: Vec<Event>,
    /// The end of the stop hook, if there is one.
    #[serde(skip)]
    pub hook: Option<HookEnd>,
}

impl LaneResult {
    /// The time from the end of the last stream to that of Envoy.
    pub(super) fn delay(&self) -> f64 {
        self.envoy_ended - self.request.at.max(self.websocket.at)
    }
}

/// Adds the explanation of the result, and the differences from the expected one.
pub(super) fn judge(mut result: LaneResult, connections: Option<u64>, times: &Times) -> LaneResult {
    result.why = why(&result, connections, times);
    result.surprises = surprises(&result, times);
    result
}

/// The explanation in a few words, from the facts alone.
fn why(result: &LaneResult, connections: Option<u64>, times: &Times) -> String {
    if !result.request.lost && result.executions > 1 {
        return "another pod did the work again".to_owned();
    }
    let drain = span(result.lane.drain_time(times).as_secs_f64());
    match (result.ended_by, &result.hook, connections) {
        (EndedBy::DrainTime, Some(hook), _) if !hook.is_cut => {
            format!("the hook slept, and the agent took its {drain}")
        }
        (EndedBy::DrainTime, ..) => format!("the agent ended Envoy {drain} after SIGTERM"),
        (EndedBy::ZeroConnections, ..) => "the agent saw no connection".to_owned(),
        (EndedBy::Sigkill, _, Some(1)) => "one idle connection held Envoy".to_owned(),
        (EndedBy::Sigkill, _, Some(count)) if count > 1 => {
            format!("{count} idle connections held Envoy")
        }
        (EndedBy::Sigkill, Some(hook), _) if hook.is_cut => {
            format!("the hook never ended: {}", hook.words)
        }
        (EndedBy::Sigkill, ..) => "Envoy did not end".to_owned(),
        (EndedBy::Itself, ..) if result.lane == Lane::Laststream => {
            format!("the gate ended Envoy {} after the last stream", span(result.delay()))
        }
        (EndedBy::Itself, ..) => "Envoy ended by itself".to_owned(),
        (EndedBy::StillRunning, ..) => "Envoy still ran at the end".to_owned(),
    }
}

fn span(seconds: f64) -> String {
    format!("{seconds:.1} s")
}

fn surprises(result: &LaneResult, times: &Times) -> Vec<String> {
    let expected = result.lane.expected();
    let mut surprises = Vec::new();
    let mut surprise = |what: String| surprises.push(format!("{}: {what}", result.lane.name()));
    for (kind, stream, is_lost) in [
        ("request", &result.request, expected.is_request_lost),
        ("WebSocket", &result.websocket, expected.is_websocket_lost),
    ] {
        if stream.lost != is_lost {
            let planned = if is_lost { "lost" } else { "whole" };
            surprise(format!(
                "expected the {kind} to be {planned}, but the client got: {}",
                stream.result
            ));
        }
    }
    if result.executions != expected.executions {
        surprise(format!(
            "expected the work to be done {}, but it was done {}",
            times_in_words(expected.executions),
            times_in_words(result.executions)
        ));
    }
    if result.ended_by != expected.ended_by {
        surprise(format!(
            "expected Envoy to be ended by {}, but it was ended by {}",
            expected.ended_by.words(),
            result.ended_by.words()
        ));
    }
    if result.ended_by == EndedBy::Itself
        && (result.delay() < 0.0
            || result.envoy_ended >= result.deleted + times.grace_period.as_secs_f64())
    {
        surprise(format!(
            "expected Envoy to end between the last stream and the end of the grace period, but it \
                ended at {}",
            span(result.envoy_ended)
        ));
    }
    surprises
}

pub(super) fn times_in_words(count: usize) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        _ => format!("{count} times"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::demo) fn stream(result: &str, at: f64, lost: bool) -> StreamEnd {
        StreamEnd { result: result.to_owned(), at, lost }
    }

    /// The observations of streams that were whole.
    pub(in crate::demo) fn observed(lane: Lane, ended_by: EndedBy) -> LaneResult {
        LaneResult {
            lane,
            about: lane.about(),
            request: stream("200", 10.0, false),
            websocket: stream("closed", 13.0, false),
            executions: lane.expected().executions,
            deleted: 1.0,
            envoy_ended: 14.2,
            ended_by,
            why: String::new(),
            surprises: Vec::new(),
            events: Vec::new(),
            hook: None,
        }
    }

    fn judged(result: LaneResult) -> LaneResult {
        judge(result, None, &Times::usual())
    }

    #[test]
    fn an_expected_result_is_no_surprise() {
        let good = judged(observed(Lane::Laststream, EndedBy::Itself));
        assert_eq!(good.surprises, [""; 0]);
        assert_eq!(good.why, "the gate ended Envoy 1.2 s after the last stream");
        let cut = |at| (stream("503", at, true), stream("cut", at, true));
        let (request, websocket) = cut(6.0);
        let nothing = observed(Lane::AsInstalled, EndedBy::DrainTime);
        let lost = judged(LaneResult { request, websocket, ..nothing });
        assert_eq!(lost.surprises, [""; 0]);
        assert_eq!(lost.why, "the agent ended Envoy 5.0 s after SIGTERM");
    }

    #[test]
    fn each_wrong_result_is_a_surprise() {
        let gate = || observed(Lane::Laststream, EndedBy::Itself);
        let cut = || stream("cut", 6.0, true);
        for (result, surprises) in [
            (LaneResult { request: cut(), ..gate() }, 1),
            (LaneResult { websocket: cut(), ended_by: EndedBy::DrainTime, ..gate() }, 2),
            (observed(Lane::AsInstalled, EndedBy::DrainTime), 2),
            (LaneResult { executions: 2, ..gate() }, 1),
            (LaneResult { envoy_ended: 21.0, ..gate() }, 1),
            (LaneResult { envoy_ended: 12.0, ..gate() }, 1),
            (observed(Lane::DrainDuration, EndedBy::StillRunning), 1),
        ] {
            let found = judged(result).surprises;
            assert_eq!(found.len(), surprises, "{found:?}");
        }
    }
}
