//! The gate: its replies, its states, and its effects on Envoy.

mod access;
mod access_rendered;
mod admin_faults;
mod adversary;
mod app;
pub(crate) mod bench;
mod commands;
pub(crate) mod deaths;
mod directions;
mod drains;
mod ends;
mod false_hold;
mod grpc;
mod interface;
mod listeners;
mod listing;
mod notify;
mod open_ends;
mod overload;
mod seed;
mod signals;
mod states;
pub(crate) mod traffic;
mod true_zero;
mod truth;
mod upgrade;
mod waiters;
mod watch;

use crate::lab::Case;

pub(crate) fn cases() -> Vec<Case> {
    [
        access::cases(),
        access_rendered::cases(),
        admin_faults::cases(),
        adversary::cases(),
        app::cases(),
        commands::cases(),
        deaths::cases(),
        directions::cases(),
        drains::cases(),
        ends::cases(),
        false_hold::cases(),
        grpc::cases(),
        truth::cases(),
        upgrade::cases(),
        interface::cases(),
        listeners::cases(),
        listing::cases(),
        notify::cases(),
        open_ends::cases(),
        overload::cases(),
        seed::cases(),
        signals::cases(),
        states::cases(),
        traffic::cases(),
        true_zero::cases(),
        waiters::cases(),
    ]
    .concat()
}
