//! The module in a real mesh: Kubernetes' API server, istiod, Istio's agents, on one level with and
//! on one without a kubelet. `cargo mesh` runs it; README.md says what it shows.
//!
//! The program plays several parts: it gets what is needed, then runs itself in namespaces of its
//! own, once for each level.

mod agent;
mod cluster;
mod control_plane;
mod envoy_gateway;
mod fleet;
mod isolation;
mod istio;
mod level;
mod node;
mod parts;
mod program;
mod seen;
mod started;
mod sweeper;

use std::process::ExitCode;

use crate::isolation::Role;
use crate::level::Level;

/// In the order in which they run.
const LEVELS: &[Level] = &[control_plane::LEVEL, envoy_gateway::LEVEL, fleet::LEVEL, node::LEVEL];

fn main() -> ExitCode {
    if let Some(arguments) = node::inside::arguments() {
        return node::inside::run(&arguments);
    }
    match isolation::role() {
        Role::Outside => level::run_all(LEVELS),
        Role::Init => isolation::init(),
        Role::Level(name) => level::run_inside(LEVELS, &name),
        Role::Sweeper => sweeper::main(),
    }
}
