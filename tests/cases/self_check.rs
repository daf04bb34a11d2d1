//! What no other case would notice in the test kit: how it starts and ends processes, and that the
//! mixed load does what it claims.

mod basics;
mod mixed_load;

use crate::lab::cases;

cases! {
    basics::starts_stops_and_reads_stats,
    basics::the_error_names_why_envoy_does_not_start,
    basics::fails_a_trial_that_hangs,
    basics::leaves_fetching_out_of_deadlines,
    basics::ends_processes_with_their_parent,
    basics::ends_a_command_that_goes_on,
    mixed_load::leaves_nothing_open,
}
