//! The gate: its replies, its states, and its effects on Envoy.

mod access;
mod access_rendered;
mod admin_faults;
mod adversary;
mod agent;
mod app;
pub(crate) mod bench;
mod bounded;
mod by_envoy;
mod commands;
mod datagrams;
pub(crate) mod deaths;
mod directions;
mod drains;
mod ends;
mod false_hold;
mod grpc;
mod hidden;
mod interface;
mod last_call;
mod listeners;
mod listing;
mod lost_answers;
mod notify;
mod open_ends;
mod overload;
mod program;
mod restless_agent;
mod seed;
mod signals;
mod states;
mod tcp;
pub(crate) mod traffic;
mod true_zero;
mod truth;
mod unwritten;
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
        agent::cases(),
        app::cases(),
        bounded::cases(),
        by_envoy::cases(),
        commands::cases(),
        datagrams::cases(),
        deaths::cases(),
        directions::cases(),
        drains::cases(),
        ends::cases(),
        false_hold::cases(),
        grpc::cases(),
        hidden::cases(),
        truth::cases(),
        unwritten::cases(),
        upgrade::cases(),
        interface::cases(),
        last_call::cases(),
        listeners::cases(),
        listing::cases(),
        lost_answers::cases(),
        notify::cases(),
        open_ends::cases(),
        overload::cases(),
        program::cases(),
        seed::cases(),
        signals::cases(),
        restless_agent::cases(),
        states::cases(),
        tcp::cases(),
        traffic::cases(),
        true_zero::cases(),
        waiters::cases(),
    ]
    .concat()
}
