//! The test kit itself, on Envoys without the module: what the other cases stand on holds.

mod basics;
mod dynamic;
mod mixed_load;
mod options;
mod protocols;

use crate::lab::{Case, case};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case!(basics::starts_stops_and_reads_stats),
        case!(basics::says_why_envoy_does_not_start),
        case!(basics::fails_a_trial_that_hangs),
        case!(basics::ends_processes_with_their_parent),
        case!(dynamic::replaces_listeners),
        case!(dynamic::replaces_filters),
        case!(dynamic::reaches_admin_through_a_cluster),
        case!(options::builds_what_envoy_accepts),
        case!(options::obeys_the_options),
        case!(protocols::knows_the_direct_peer),
        case!(protocols::holds_and_releases),
        case!(protocols::talks_http2),
        case!(protocols::opens_websockets_and_tunnels),
        case!(protocols::shows_client_certificates),
        case!(mixed_load::leaves_nothing_open),
    ]
}
