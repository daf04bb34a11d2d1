//! Rollouts: the progress of a workload, and its old pods.

pub(crate) mod argo;
pub mod follower;
pub(crate) mod look;
pub(crate) mod old_pods;
pub mod rollout;
pub(crate) mod workloads;
