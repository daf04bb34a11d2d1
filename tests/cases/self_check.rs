//! The test kit itself, on Envoys without the module, because the other cases rely on it.

mod basics;
mod dynamic;
mod mixed_load;
mod options;
mod protocols;

use crate::lab::cases;

cases! {
    basics::starts_stops_and_reads_stats,
    basics::the_error_names_why_envoy_does_not_start,
    basics::fails_a_trial_that_hangs,
    basics::leaves_fetching_out_of_deadlines,
    basics::ends_processes_with_their_parent,
    basics::ends_a_command_that_goes_on,
    dynamic::replaces_listeners,
    dynamic::replaces_filters,
    dynamic::reaches_admin_through_a_cluster,
    options::builds_what_envoy_accepts,
    options::obeys_the_options,
    protocols::knows_the_direct_peer,
    protocols::holds_and_releases,
    protocols::talks_http2,
    protocols::opens_websockets_and_tunnels,
    protocols::shows_client_certificates,
    mixed_load::leaves_nothing_open,
}
