//! The result of a lane: computed from the client's response and the times at which processes
//! ended, then compared with the expected result.

use serde::Serialize;

use super::agent::Reason;
use super::lane::{EndedBy, Lane};
use super::record::{Actor, Event, Span};
use super::times::Times;

/// The result of a lane. Times are seconds since the request was sent.
#[derive(Debug, Clone, Serialize)]
pub struct LaneResult {
    /// Which one.
    pub lane: Lane,
    /// What was set up.
    pub about: &'static str,
    /// The status that the client got; none if the connection broke.
    pub status: Option<u16>,
    /// What the client saw instead of a status.
    pub broken: Option<String>,
    /// When the client knew.
    pub answered: f64,
    /// Whether the client did not get the app's whole answer.
    pub lost: bool,
    /// How often an app did the work.
    pub executions: usize,
    /// When the pod was deleted.
    pub deleted: f64,
    /// When the proxy of the deleted pod ended.
    pub proxy_ended: f64,
    /// What ended it.
    pub ended_by: EndedBy,
    /// When the last container of the pod had ended.
    pub pod_gone: f64,
    /// Why it came out like this.
    pub why: String,
    /// Differences from the expected result.
    pub surprises: Vec<String>,
    /// Everything that happened.
    pub events: Vec<Event>,
    /// Everything that lasted.
    pub spans: Vec<Span>,
}

/// What was observed.
pub(super) struct Observed {
    pub(super) lane: Lane,
    pub(super) answer: Result<(u16, bool), String>,
    pub(super) answered: f64,
    pub(super) executions: usize,
    pub(super) deleted: f64,
    pub(super) proxy_ended: f64,
    pub(super) reason: Option<Reason>,
    pub(super) has_ended: bool,
    pub(super) pod_gone: f64,
    pub(super) connections: Option<u64>,
    pub(super) events: Vec<Event>,
    pub(super) spans: Vec<Span>,
}

pub(super) fn judge(observed: Observed, times: &Times) -> LaneResult {
    let (status, whole) = match &observed.answer {
        Ok((status, whole)) => (Some(*status), *whole),
        Err(_) => (None, false),
    };
    let mut result = LaneResult {
        lane: observed.lane,
        about: observed.lane.about(),
        status,
        broken: observed.answer.err(),
        answered: observed.answered,
        lost: status != Some(200) || !whole,
        executions: observed.executions,
        deleted: observed.deleted,
        proxy_ended: observed.proxy_ended,
        ended_by: ended_by(observed.reason, observed.has_ended),
        pod_gone: observed.pod_gone,
        why: String::new(),
        surprises: Vec::new(),
        events: observed.events,
        spans: observed.spans,
    };
    result.why = why(&result, observed.connections, times);
    result.surprises = surprises(&result, times);
    result
}

fn ended_by(reason: Option<Reason>, has_ended: bool) -> EndedBy {
    match reason {
        _ if !has_ended => EndedBy::StillRunning,
        Some(Reason::DrainTime) => EndedBy::DrainTime,
        Some(Reason::ZeroConnections) => EndedBy::ZeroConnections,
        Some(Reason::Drained) => EndedBy::Gate,
        Some(Reason::Sigkill) => EndedBy::Sigkill,
        None => EndedBy::Itself,
    }
}

/// In words, from the facts alone.
fn why(result: &LaneResult, connections: Option<u64>, times: &Times) -> String {
    let end = end_in_words(result, connections, times);
    match (result.lost, result.executions) {
        (true, _) if result.proxy_ended + 1.0 < result.answered => {
            format!("{end}; the request was lost")
        }
        (true, _) => format!("{end}, and the request with it"),
        (false, 0 | 1) => end,
        (false, count) => {
            format!("{end}; another pod was asked, and the work done {}", times_in_words(count))
        }
    }
}

fn end_in_words(result: &LaneResult, connections: Option<u64>, times: &Times) -> String {
    let hook = result.spans.iter().find(|span| span.who == Actor::Hook);
    let agent = span(times.agent.as_secs_f64());
    match (result.ended_by, hook, connections) {
        (EndedBy::DrainTime, Some(hook), _) if !hook.cut => {
            format!("the hook ended: {}; then the agent took its {agent}", hook.what)
        }
        (EndedBy::DrainTime, ..) => format!("the agent killed Envoy {agent} after SIGTERM"),
        (EndedBy::ZeroConnections, ..) => {
            "the agent killed Envoy when it saw no connection".to_owned()
        }
        (EndedBy::Gate, ..) => format!(
            "the gate opened, and Envoy ended {} after the answer",
            span(result.proxy_ended - result.answered)
        ),
        (EndedBy::Sigkill, _, Some(1)) => "one idle connection held Envoy until SIGKILL".to_owned(),
        (EndedBy::Sigkill, _, Some(count)) if count > 1 => {
            format!("{count} idle connections held Envoy until SIGKILL")
        }
        (EndedBy::Sigkill, Some(hook), _) if hook.cut => {
            format!("the hook never ended: {}; SIGKILL", hook.what)
        }
        (EndedBy::Sigkill, ..) => "Envoy was there until SIGKILL".to_owned(),
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
        surprise(format!("the request was to be {planned}, and {}", client_result(result)));
    }
    if result.executions != expected.executions {
        surprise(format!(
            "the work was to be done {} times, and was done {} times",
            expected.executions, result.executions
        ));
    }
    if result.ended_by != expected.ended_by {
        surprise(format!(
            "the proxy was to be ended by {}, and was ended by {}",
            expected.ended_by.words(),
            result.ended_by.words()
        ));
    }
    if result.ended_by == EndedBy::Gate
        && (result.proxy_ended < result.answered
            || result.pod_gone >= result.deleted + times.grace_period.as_secs_f64())
    {
        surprise(format!(
            "the proxy was to end between the answer and the end of the grace period, and ended at \
                {}",
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
mod tests {
    use super::*;

    fn observed(lane: Lane, answer: Result<(u16, bool), String>, reason: Reason) -> Observed {
        let executions = lane.expected().executions;
        let (events, spans) = (Vec::new(), Vec::new());
        let connections = None;
        Observed {
            lane,
            answer,
            answered: 10.0,
            executions,
            deleted: 1.0,
            proxy_ended: 11.5,
            reason: Some(reason),
            has_ended: true,
            pod_gone: 11.5,
            connections,
            events,
            spans,
        }
    }

    #[test]
    fn what_is_expected_is_no_surprise() {
        let times = Times::usual();
        let good = judge(observed(Lane::Laststream, Ok((200, true)), Reason::Drained), &times);
        assert_eq!((good.lost, good.surprises.len()), (false, 0), "{:?}", good.surprises);
        assert_eq!(good.why, "the gate opened, and Envoy ended 1.5 s after the answer");
        let lost = judge(observed(Lane::Nothing, Ok((503, true)), Reason::DrainTime), &times);
        assert_eq!((lost.lost, lost.surprises.len()), (true, 0), "{:?}", lost.surprises);
        assert_eq!(lost.why, "the agent killed Envoy 5.0 s after SIGTERM, and the request with it");
    }

    #[test]
    fn everything_else_is() {
        let times = Times::usual();
        let surprised = |observed| judge(observed, &times).surprises.len();
        assert_eq!(surprised(observed(Lane::Laststream, Ok((200, false)), Reason::Drained)), 1);
        assert_eq!(
            surprised(observed(Lane::Laststream, Err("reset".into()), Reason::DrainTime)),
            2
        );
        assert_eq!(surprised(observed(Lane::Nothing, Ok((200, true)), Reason::DrainTime)), 1);
        assert_eq!(
            surprised(Observed {
                executions: 2,
                ..observed(Lane::Laststream, Ok((200, true)), Reason::Drained)
            }),
            1
        );
        assert_eq!(
            surprised(Observed {
                pod_gone: 21.0,
                ..observed(Lane::Laststream, Ok((200, true)), Reason::Drained)
            }),
            1
        );
        assert_eq!(
            surprised(Observed {
                proxy_ended: 9.0,
                ..observed(Lane::Laststream, Ok((200, true)), Reason::Drained)
            }),
            1
        );
        assert_eq!(
            surprised(Observed {
                has_ended: false,
                ..observed(Lane::Nothing, Ok((503, true)), Reason::DrainTime)
            }),
            1
        );
    }
}
