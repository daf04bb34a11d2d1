//! The Kubernetes API: the connection as kubectl finds it, requests and their errors, objects of
//! any kind.

pub(crate) mod access;
pub(crate) mod call;
pub mod client;
pub(crate) mod error;
pub(crate) mod kinds;
pub(crate) mod kubeconfig;
pub mod objects;
pub(crate) mod pages;
pub(crate) mod pause;
pub(crate) mod secretless;
