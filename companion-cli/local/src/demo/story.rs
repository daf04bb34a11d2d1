//! The meaning of the results, for the view and the report: a grade for each, and a title that
//! claims nothing that the results do not show.

use strum::IntoStaticStr;

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

impl LaneResult {
    /// The response that the client got, and when.
    pub(super) fn response(&self) -> String {
        let status = self.status.map_or("no answer".to_owned(), |status| status.to_string());
        format!("{status} at {:.1} s", self.answered)
    }

    /// A lost request is worse than work that was done twice.
    pub(super) fn request_grade(&self) -> Grade {
        match (self.lost, self.executions) {
            (true, _) => Grade::Bad,
            (false, 0 | 1) => Grade::Good,
            (false, _) => Grade::Fair,
        }
    }

    /// A good end comes after the answer, and at once: before the agent's fixed time is over.
    pub(super) fn end_grade(&self, times: &Times) -> Grade {
        let grade = match self.ended_by {
            EndedBy::Sigkill | EndedBy::StillRunning => Grade::Bad,
            _ if self.proxy_ended - self.answered < times.agent.as_secs_f64() => Grade::Good,
            _ => Grade::Fair,
        };
        grade.max(self.request_grade())
    }

    /// The time of the proxy's end, with the signal that users notice.
    pub(super) fn end(&self) -> String {
        let signal = if self.ended_by == EndedBy::Sigkill { ", SIGKILL" } else { "" };
        format!("{:.1} s{signal}", self.proxy_ended)
    }
}

pub(super) fn title(lanes: &[LaneResult], times: &Times) -> &'static str {
    let is_good = |lane: &&LaneResult| lane.end_grade(times) == Grade::Good;
    let mut best = lanes.iter().filter(|lane| !lane.lane.is_native()).filter(is_good);
    match (best.next(), best.next()) {
        (Some(LaneResult { lane: Lane::Laststream, .. }), None) => {
            "With a classic sidecar, only laststream loses no request, does the work once, and \
                ends Envoy at once"
        }
        _ => "A request in flight, and its pod is deleted",
    }
}

/// The remark on native sidecars, if the results show it.
pub(super) fn native_remark(lanes: &[LaneResult], times: &Times) -> Option<&'static str> {
    let is_good = |lane: &LaneResult| lane.lane.is_native() && lane.end_grade(times) == Grade::Good;
    lanes.iter().any(is_good).then_some(
        "A native sidecar does so here without laststream: kubelet ends it after the app. A \
            gateway has no app to wait for.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::judge::tests::observed;

    /// The expected results: `observed` has an answer after 10 s, and the proxy's end 1.5 s later.
    fn results() -> Vec<LaneResult> {
        let result = |lane: &Lane| {
            let expected = lane.expected();
            let held = if expected.ended_by == EndedBy::Drained { 1.5 } else { 5.1 };
            let proxy_ended = 10.0 + held;
            LaneResult { lost: expected.lost, proxy_ended, ..observed(*lane, expected.ended_by) }
        };
        Lane::ALL.iter().map(result).collect()
    }

    #[test]
    fn a_lost_request_is_worse_than_work_done_twice() {
        let grades = |lane: &LaneResult| (lane.request_grade(), lane.end_grade(&Times::usual()));
        let found: Vec<_> = results().iter().map(grades).collect();
        let (good, fair, bad) = (Grade::Good, Grade::Fair, Grade::Bad);
        let [laststream, lost, killed] = [(good, good), (bad, bad), (good, bad)];
        let [held, twice] = [(good, fair), (fair, fair)];
        assert_eq!(found, [laststream, lost, lost, killed, killed, held, twice, laststream]);
    }

    #[test]
    fn the_title_claims_only_what_the_results_show() {
        let times = Times::usual();
        let claims = |lanes: &[LaneResult]| title(lanes, &times).contains("only laststream");
        let remarks = |lanes: &[LaneResult]| native_remark(lanes, &times).is_some();
        assert!(claims(&results()) && remarks(&results()));
        for (lane, worse) in [
            (Lane::Laststream, LaneResult { lost: true, ..results().remove(0) }),
            (Lane::Laststream, LaneResult { executions: 2, ..results().remove(0) }),
            (Lane::Laststream, LaneResult { proxy_ended: 15.1, ..results().remove(0) }),
            // another lane that is as good
            (Lane::Netstat, observed(Lane::Netstat, EndedBy::DrainTime)),
        ] {
            let mut lanes = results();
            lanes.iter_mut().filter(|result| result.lane == lane).for_each(|result| {
                *result = worse.clone();
            });
            assert!(!claims(&lanes), "{lane:?}");
            assert!(remarks(&lanes));
        }
        let mut lanes = results();
        lanes.iter_mut().for_each(|lane| lane.lost = true);
        assert!(!claims(&lanes) && !remarks(&lanes));
    }
}
