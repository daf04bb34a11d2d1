//! LS901 to LS924: what an upgrade of Istio, Envoy, Envoy Gateway or Kubernetes changes for objects
//! that are there; only with `lint --upgrade`. This file is the table: each change, the program and
//! the release that it came with. Their texts have the sources.

mod affected;

use manifest_text::versions::Release;

use crate::finding::Check;
use crate::upgrade::{ENVOY, ENVOY_GATEWAY, ISTIO};

/// A change of a program: its rule, the program, the release that it came with (none if each one
/// brings it), and the check for what it affects.
pub type Change = (&'static str, &'static str, Option<Release>, Check);

pub(crate) const CHANGES: &[Change] = &[
    ("LS901", ISTIO, None, affected::patches_of_old_proxies),
    ("LS902", ISTIO, Some((1, 30)), affected::wasm_plugins),
    ("LS903", ISTIO, Some((1, 30)), |inputs, findings| {
        affected::old_versions(&["TLSRoute", "ReferenceGrant"], inputs, findings);
    }),
    ("LS908", ISTIO, Some((1, 31)), affected::missing_overlays),
    ("LS911", ENVOY, Some((1, 40)), affected::gradual_drains),
    ("LS912", ENVOY, Some((1, 40)), affected::abrupt_drains),
    ("LS913", ENVOY, Some((1, 40)), affected::fewer_workers),
    ("LS916", ENVOY, Some((1, 40)), affected::expressions_with_other_characters),
    ("LS921", ENVOY_GATEWAY, Some((1, 9)), affected::lua),
    ("LS923", ENVOY_GATEWAY, Some((1, 9)), |inputs, findings| {
        affected::old_versions(&["TCPRoute", "UDPRoute"], inputs, findings);
    }),
    ("LS924", ENVOY_GATEWAY, Some((1, 10)), affected::zero_hops),
];
