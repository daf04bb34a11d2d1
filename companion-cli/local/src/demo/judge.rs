//! The result of a lane: computed from the client's response and the times at which processes
//! ended, then compared with the expected result.

use serde::Serialize;

use super::lane::{EndedBy, Lane};
use super::record::{Event, HookEnd};
use super::times::Times;

/// The result of a lane. Times are seconds since the request was sent.
#[derive(Debug, Clone, Serialize)]
pub struct LaneResult {
    pub lane: Lane,
    pub about: &'static str,
    /// The status that the client got; none if the connection broke.
    pub status: Option<u16>,
    /// The client's error, if there is no status.
    pub broken: Option<String>,
    /// The time at which the client had its answer or error.
    pub answered: f64,
    /// Whether the client did not get the app's whole answer.
    pub lost: bool,
    /// The number of times that an app did the work.
    pub executions: usize,
    pub deleted: f64,
    pub proxy_ended: f64,
    /// The reason for the end of the proxy.
    pub ended_by: EndedBy,
    /// The time at which the last container of the pod had ended.
    pub pod_gone: f64,
    pub why: String,
    pub surprises: Vec<String>,
    pub events: Vec<Event>,
    /// The end of the proxy's stop hook, if it has one.
    #[serde(skip)]
    pub hook: Option<HookEnd>,
}

/// Adds the explanation of the result, and the differences from the expected one.
pub(super) fn judge(mut result: LaneResult, connections: Option<u64>, times: &Times) -> LaneResult {
    result.why = why(&result, connections, times);
    result.surprises = surprises(&result, times);
    result
}

/// The explanation in a few words, from the facts alone.
fn why(result: &LaneResult, connections: Option<u64>, times: &Times) -> String {
    if !result.lost && result.executions > 1 {
        return "another pod did the work again".to_owned();
    }
    let agent = span(times.agent.as_secs_f64());
    match (result.ended_by, &result.hook, connections) {
        (EndedBy::DrainTime, Some(hook), _) if !hook.is_cut => {
            format!("the hook ended; then the agent took its {agent}")
        }
        (EndedBy::DrainTime, ..) if result.lane == Lane::AppSleeps => {
            "the hook held the app, and not Envoy".to_owned()
        }
        (EndedBy::DrainTime, ..) => format!("the agent ended Envoy {agent} after SIGTERM"),
        (EndedBy::ZeroConnections, ..) => "the agent saw no connection".to_owned(),
        (EndedBy::Drained, ..) if result.lane.is_native() => {
            "kubelet ended the app first, then Envoy".to_owned()
        }
        (EndedBy::Drained, ..) => format!(
            "the gate opened: Envoy ended {} after the answer",
            span(result.proxy_ended - result.answered)
        ),
        (EndedBy::Sigkill, _, Some(1)) => "one idle connection held Envoy".to_owned(),
        (EndedBy::Sigkill, _, Some(count)) if count > 1 => {
            format!("{count} idle connections held Envoy")
        }
        (EndedBy::Sigkill, Some(hook), _) if hook.is_cut => {
            format!("the hook never ended: {}", hook.words)
        }
        (EndedBy::Sigkill, ..) => "Envoy did not end".to_owned(),
        (EndedBy::Itself, ..) => "Envoy ended by itself".to_owned(),
        (EndedBy::StillRunning, ..) => "Envoy still ran at the end".to_owned(),
    }
}

fn span(seconds: f64) -> String {
    format!("{seconds:.1} s")
}

fn client_result(result: &LaneResult) -> String {
    match (result.status, &result.broken) {
        (Some(status), _) => format!("the client got {status}"),
        (None, broken) => {
            format!("the connection broke ({})", broken.as_deref().unwrap_or("no reason"))
        }
    }
}

fn surprises(result: &LaneResult, times: &Times) -> Vec<String> {
    let expected = result.lane.expected();
    let mut surprises = Vec::new();
    let mut surprise = |what: String| surprises.push(format!("{}: {what}", result.lane.name()));
    if result.lost != expected.lost {
        let planned = if expected.lost { "lost" } else { "answered" };
        surprise(format!("expected the request to be {planned}, but {}", client_result(result)));
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
            "expected the proxy to be ended by {}, but it was ended by {}",
            expected.ended_by.words(),
            result.ended_by.words()
        ));
    }
    if result.ended_by == EndedBy::Drained
        && (result.proxy_ended < result.answered
            || result.pod_gone >= result.deleted + times.grace_period.as_secs_f64())
    {
        surprise(format!(
            "expected the proxy to end between the answer and the end of the grace period, but it \
                ended at {}",
            span(result.proxy_ended)
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

    /// The observations of a request whose client got its whole answer.
    pub(in crate::demo) fn observed(lane: Lane, ended_by: EndedBy) -> LaneResult {
        LaneResult {
            lane,
            about: lane.about(),
            status: Some(200),
            broken: None,
            answered: 10.0,
            lost: false,
            executions: lane.expected().executions,
            deleted: 1.0,
            proxy_ended: 11.5,
            ended_by,
            pod_gone: 11.5,
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
        let good = judged(observed(Lane::Laststream, EndedBy::Drained));
        assert_eq!(good.surprises, [""; 0]);
        assert_eq!(good.why, "the gate opened: Envoy ended 1.5 s after the answer");
        let nothing = observed(Lane::NoHook, EndedBy::DrainTime);
        let lost = judged(LaneResult { lost: true, status: Some(503), ..nothing });
        assert_eq!(lost.surprises, [""; 0]);
        assert_eq!(lost.why, "the agent ended Envoy 5.0 s after SIGTERM");
    }

    #[test]
    fn each_wrong_result_is_a_surprise() {
        let gate = || observed(Lane::Laststream, EndedBy::Drained);
        let broken = Some("reset".to_owned());
        let cut = LaneResult { lost: true, status: None, broken, ..gate() };
        for (result, surprises) in [
            (LaneResult { lost: true, ..gate() }, 1),
            (LaneResult { ended_by: EndedBy::DrainTime, ..cut }, 2),
            (observed(Lane::NoHook, EndedBy::DrainTime), 1),
            (LaneResult { executions: 2, ..gate() }, 1),
            (LaneResult { pod_gone: 21.0, ..gate() }, 1),
            (LaneResult { proxy_ended: 9.0, ..gate() }, 1),
            (LaneResult { lost: true, ..observed(Lane::NoHook, EndedBy::StillRunning) }, 1),
        ] {
            let found = judged(result).surprises;
            assert_eq!(found.len(), surprises, "{found:?}");
        }
    }
}
