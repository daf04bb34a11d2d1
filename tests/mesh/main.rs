//! The module in a real mesh: Kubernetes' API server, istiod, Istio's agents and Envoy Gateway, on
//! several levels, one of them with a kubelet. `cargo mesh` runs it; README.md has the results.
//!
//! The program has several roles: it gets the parts of the mesh, then runs itself once for each
//! level, in separate namespaces.

mod agent;
mod cluster;
mod control_plane;
mod cut_streams;
mod envoy_gateway;
mod fleet;
mod isolation;
mod istio;
mod level;
mod load;
mod mesh_tls;
mod node;
mod objects;
mod parts;
mod program;
mod release;
mod role;
mod seen;
mod started;
mod sweeper;

use std::process::ExitCode;

use crate::level::Level;
use crate::role::Role;

/// All levels, in the order in which they start: the shortest last, because it waits for a place.
const LEVELS: &[Level] = &[fleet::LEVEL, envoy_gateway::LEVEL, node::LEVEL, control_plane::LEVEL];

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
