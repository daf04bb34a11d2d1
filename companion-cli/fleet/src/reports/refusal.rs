//! One row in place of many for a refusal that concerns all pods, such as a missing right. Pure.

use std::collections::BTreeMap;

use crate::api::error::FleetError;
use crate::reports::pod_report::{Class, PodReport};
use laststream_gate::text::many;

/// The reports, with one for all pods of a namespace of which only this failure is known.
pub fn folded(reports: Vec<PodReport>, failure: &FleetError) -> Vec<PodReport> {
    let (refused, others): (Vec<_>, Vec<_>) =
        reports.into_iter().partition(|report| is_refused(report, failure));
    let mut alike: BTreeMap<_, Vec<PodReport>> = BTreeMap::new();
    for report in refused {
        alike.entry((report.namespace.clone(), report.life)).or_default().push(report);
    }
    alike.into_values().filter_map(one_row).chain(others).collect()
}

fn one_row(reports: Vec<PodReport>) -> Option<PodReport> {
    let count = reports.len() as u64;
    let first = reports.into_iter().next()?;
    let pod = if count == 1 { first.pod.clone() } else { many(count, "pod") };
    Some(PodReport { pod, ..first })
}

/// Whether nothing is known of the pod, because this failure concerns it, too.
fn is_refused(report: &PodReport, failure: &FleetError) -> bool {
    let here = match failure {
        FleetError::Forbidden { call, message } => FleetError::Forbidden {
            call: Box::new(call.as_ref().clone().within(&report.namespace)),
            message: message.clone(),
        },
        failure => failure.clone(),
    };
    report.class == Class::Unreachable && report.why == Some(here.short())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::call::Call;
    use crate::reports::pod_report::Life;

    #[test]
    fn pods_without_a_right_are_one_row_for_each_namespace() {
        let report = |namespace: &str, pod: &str, life, why: &str| PodReport {
            namespace: namespace.into(),
            pod: pod.into(),
            life,
            class: Class::Unreachable,
            why: Some(why.into()),
            ..PodReport::default()
        };
        let right =
            |namespace| format!("no right to `get` `pods/proxy` in namespace `{namespace}`");
        let reports = vec![
            report("a", "a-1", Life::Ready, &right("a")),
            report("a", "a-2", Life::NotReady, &right("a")),
            report("a", "a-3", Life::Ready, &right("a")),
            report("a", "a-4", Life::Ready, "connection refused"),
            report("b", "b-1", Life::Ready, &right("b")),
        ];
        let call = Box::new(Call::new("get", "pods/proxy").within("a"));
        let rows = folded(reports, &FleetError::Forbidden { call, message: "no".into() });
        let names: Vec<_> = rows.iter().map(|row| (row.pod.as_str(), row.life)).collect();
        let ready = |pod| (pod, Life::Ready);
        let not_ready = ("a-2", Life::NotReady);
        assert_eq!(names, [ready("2 pods"), not_ready, ready("b-1"), ready("a-4")]);
    }
}
