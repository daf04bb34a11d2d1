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
mod role;
mod seen;
mod started;
mod sweeper;

use std::process::ExitCode;

use crate::level::Level;
use crate::role::Role;

/// In the order in which they run.
const LEVELS: &[Level] = &[control_plane::LEVEL, envoy_gateway::LEVEL, fleet::LEVEL, node::LEVEL];

fn main() -> ExitCode {
    if let Some(arguments) = node::inside::arguments() {
        return node::inside::run(&arguments);
    }
    match role::role() {
        Role::Outside => level::run_all(LEVELS),
        Role::Init => isolation::init(),
        Role::Level(name) => level::run_inside(LEVELS, &name),
        Role::Sweeper => sweeper::main(),
    }
}
