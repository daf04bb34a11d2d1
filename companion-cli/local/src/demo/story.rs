//! The meaning of the results, for the view and the report: a grade for each, a title that claims
//! nothing that the results do not show, and what follows from them for sidecars.

use strum::IntoStaticStr;

use super::client::StreamEnd;
use super::judge::LaneResult;
use super::lane::{EndedBy, Lane};
use super::times::Times;

/// A grade of a part of a result. The later one is the worse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Grade {
    Good,
    Fair,
    Bad,
}

impl StreamEnd {
    pub(super) fn cell(&self) -> String {
        format!("{} at {:.1} s", self.result, self.at)
    }

    pub(super) fn grade(&self) -> Grade {
        if self.lost { Grade::Bad } else { Grade::Good }
    }
}

impl LaneResult {
    pub(super) fn work_grade(&self) -> Grade {
        if self.executions > 1 { Grade::Fair } else { Grade::Good }
    }

    /// A good end comes soon after the last stream, and not after a fixed time.
    pub(super) fn end_grade(&self, times: &Times) -> Grade {
        let grade = match self.ended_by {
            EndedBy::Sigkill | EndedBy::StillRunning => Grade::Bad,
            EndedBy::DrainTime => Grade::Fair,
            _ if self.delay() < times.agent.as_secs_f64() => Grade::Good,
            _ => Grade::Fair,
        };
        grade.max(self.request.grade()).max(self.websocket.grade()).max(self.work_grade())
    }

    /// The time of Envoy's end, with the signal that users notice.
    pub(super) fn end(&self) -> String {
        let signal = if self.ended_by == EndedBy::Sigkill { ", SIGKILL" } else { "" };
        format!("{:.1} s{signal}", self.envoy_ended)
    }
}

pub(super) fn title(lanes: &[LaneResult], times: &Times) -> &'static str {
    let mut best = lanes.iter().filter(|lane| lane.end_grade(times) == Grade::Good);
    match (best.next(), best.next()) {
        (Some(LaneResult { lane: Lane::Laststream, .. }), None) => {
            "Only laststream loses no stream, does the work once, and ends the gateway at once"
        }
        _ => "Two streams in a gateway, and its pod is deleted",
    }
}

/// The two kinds of sidecars, computed: a classic one has the same agent as the gateway, and a
/// native one stays until its app has ended.
pub(super) fn sidecars(lanes: &[LaneResult], times: &Times) -> Vec<(&'static str, String)> {
    let installed = lanes.iter().find(|lane| lane.lane == Lane::AsInstalled);
    let classic = installed.map(|lane| {
        let (request, websocket) = (lane.request.cell(), lane.websocket.cell());
        ("classic sidecar", format!("the same: {request}, {websocket}"))
    });
    let last = times.request.max(times.websocket).as_secs_f64();
    let native = format!("not lost: kubelet ends Envoy after the app, which ends at {last:.1} s");
    classic.into_iter().chain([("native sidecar", native)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::judge::tests::{observed, stream};

    /// The expected results: Envoy ends 1.2 s after the last stream, or late.
    fn results() -> Vec<LaneResult> {
        let result = |lane: &Lane| {
            let expected = lane.expected();
            let result = observed(*lane, expected.ended_by);
            let end = |lost, whole: &StreamEnd| {
                if lost { stream("cut", 6.0, true) } else { whole.clone() }
            };
            LaneResult {
                request: end(expected.is_request_lost, &result.request),
                websocket: end(expected.is_websocket_lost, &result.websocket),
                ..result
            }
        };
        Lane::ALL.iter().map(result).collect()
    }

    #[test]
    fn a_lost_stream_is_worse_than_work_done_twice() {
        let grades =
            results().iter().map(|lane| lane.end_grade(&Times::usual())).collect::<Vec<_>>();
        let (good, fair, bad) = (Grade::Good, Grade::Fair, Grade::Bad);
        assert_eq!(grades, [good, bad, fair, bad, bad, bad, bad]);
        let twice = LaneResult { executions: 2, ..results().remove(0) };
        assert_eq!(twice.end_grade(&Times::usual()), fair);
    }

    #[test]
    fn the_title_claims_only_what_the_results_show() {
        let claims =
            |lanes: &[LaneResult]| title(lanes, &Times::usual()).contains("Only laststream");
        assert!(claims(&results()));
        let cut = stream("cut", 6.0, true);
        for (lane, worse) in [
            (Lane::Laststream, LaneResult { websocket: cut, ..results().remove(0) }),
            (Lane::Laststream, LaneResult { executions: 2, ..results().remove(0) }),
            (Lane::Laststream, LaneResult { envoy_ended: 18.1, ..results().remove(0) }),
            // another lane that is as good
            (Lane::ExitOnZero, observed(Lane::ExitOnZero, EndedBy::ZeroConnections)),
        ] {
            let mut lanes = results();
            lanes.iter_mut().filter(|result| result.lane == lane).for_each(|result| {
                *result = worse.clone();
            });
            assert!(!claims(&lanes), "{lane:?}");
        }
    }

    #[test]
    fn a_classic_sidecar_has_the_result_of_the_gateway() {
        let lines = sidecars(&results(), &Times::usual());
        assert_eq!(lines[0].1, "the same: cut at 6.0 s, cut at 6.0 s");
        assert!(lines[1].1.ends_with("13.0 s"), "{lines:?}");
    }
}
