//! The pods that an operator looks at first. Pure.

use crate::reports::pod_report::{Class, PodReport};
use laststream_gate::counts_all;

/// Why an operator looks at a pod, the most urgent reason first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// Its statistics or its gate cannot be asked.
    Silent,
    /// Its drain goes on.
    Draining,
    /// Its drain ended before the last stream.
    Cut,
    /// A part of laststream is missing, or the count lacks streams.
    Uncounted,
}

impl Trouble {
    pub fn of(report: &PodReport) -> Option<Self> {
        if report.class == Class::Unreachable || report.gate_unreachable {
            return Some(Self::Silent);
        }
        match (report.state.as_deref(), report.count.as_deref()) {
            (Some("draining"), _) => Some(Self::Draining),
            (Some("expired" | "forced"), _) => Some(Self::Cut),
            _ if report.class == Class::HalfUpgraded => Some(Self::Uncounted),
            // `asking` passes by itself, and with `envoy` Envoy counts all requests.
            (_, None | Some("asking" | "envoy")) => None,
            (_, Some(word)) => (!counts_all(word)).then_some(Self::Uncounted),
        }
    }
}

/// Sorts by trouble; of the drains, the one with the least time left is the first. Pods with the
/// same trouble stay in their order.
pub fn sort(reports: &mut [PodReport]) {
    reports.sort_by_key(|report| {
        let trouble = Trouble::of(report);
        (trouble.is_none(), trouble, report.deadline_in_seconds)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(class: Class, state: &str, count: &str, left: Option<u64>) -> PodReport {
        PodReport {
            class,
            state: Some(state.to_owned()).filter(|state| !state.is_empty()),
            count: Some(count.to_owned()).filter(|count| !count.is_empty()),
            deadline_in_seconds: left,
            ..PodReport::default()
        }
    }

    #[test]
    fn reports_are_sorted_by_trouble() {
        let here = |state, count, left| report(Class::Installed, state, count, left);
        let mute = PodReport { gate_unreachable: true, ..here("serving", "exact", None) };
        let sorted = [
            report(Class::Unreachable, "", "", None),
            mute,
            here("draining", "partial", Some(9)),
            here("draining", "exact", Some(60)),
            here("expired", "exact", None),
            here("forced", "exact", None),
            report(Class::HalfUpgraded, "", "", None),
            here("serving", "rejected", None),
            here("serving", "exact", None),
            here("drained", "assumed", Some(5)),
            here("serving", "asking", None),
            here("serving", "envoy", None),
            report(Class::Without, "", "", None),
            report(Class::NotRunning, "", "", None),
        ];
        let calm = sorted.iter().filter(|report| Trouble::of(report).is_none());
        assert_eq!(calm.count(), 6, "{sorted:?}");
        let mut reversed = sorted.clone();
        reversed.reverse();
        sort(&mut reversed);
        let troubles = |reports: &[PodReport]| -> Vec<_> {
            reports.iter().map(|report| (Trouble::of(report), report.deadline_in_seconds)).collect()
        };
        assert_eq!(troubles(&reversed)[..8], troubles(&sorted)[..8]);
    }
}
