//! The imports of most cases: `use kit::prelude::*;`. It has the kit's own names, and those of
//! other crates that nearly every case needs: addresses, times, JSON.

pub use std::net::SocketAddr;
pub use std::time::Duration;

pub use serde_json::{Value, json};

pub use crate::bootstrap::{Bootstrap, Hcm, Listener, Route, cluster, filters};
pub use crate::envoy::{Envoy, Options};
pub use crate::h1::{Client, Request, Response, once};
pub use crate::upstream::Upstream;
pub use crate::wait::{PATIENCE, wait_for};
pub use crate::{Context, Error, Outcome, bail, ensure, ensure_eq, say};
