//! The gate: what it says, when it opens, what it does to Envoy.

mod app;
mod bench;
mod commands;
mod deaths;
mod directions;
mod drains;
mod grpc;
mod hooks;
mod interface;
mod listing;
mod seed;
mod signals;
mod states;
mod traffic;
mod truth;
mod waiters;
mod watch;

use crate::lab::Case;

pub(crate) fn cases() -> Vec<Case> {
    [
        app::cases(),
        commands::cases(),
        deaths::cases(),
        directions::cases(),
        drains::cases(),
        grpc::cases(),
        truth::cases(),
        hooks::cases(),
        interface::cases(),
        listing::cases(),
        seed::cases(),
        signals::cases(),
        states::cases(),
        traffic::cases(),
        waiters::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
