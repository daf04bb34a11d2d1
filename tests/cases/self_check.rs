//! What no other case would notice in the test kit: how it starts and ends processes.

mod basics;

use crate::lab::cases;

cases! {
    basics::fails_a_trial_that_hangs,
    basics::ends_processes_with_their_parent,
    basics::ends_a_command_that_goes_on,
}
