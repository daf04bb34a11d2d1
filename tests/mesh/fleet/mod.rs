//! The level of many pods: the real API server, and pods that are objects only. A stand-in serves
//! their statistics. No KWOK: it would only write the status that the case itself writes, and its
//! pods have no proxy either.

mod pods;
mod stand_in;
mod status;

use crate::level::{Case, Level, case};

pub(crate) const LEVEL: Level = Level {
    name: "fleet",
    needs_root: false,
    makes_cgroups: false,
    parts: &["etcd", "kube-apiserver", "mesh-kubectl"],
    at_a_time: Some(1), // times are measured
    cases,
};

fn cases() -> Vec<Case> {
    vec![
        case!("f2_a_thousand_pods", status::of_a_thousand, 300),
        case!("f3_ten_thousand_pods", status::of_ten_thousand, 600),
    ]
}
