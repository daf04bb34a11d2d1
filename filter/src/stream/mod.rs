//! One HTTP stream, from its request headers to its end: it is counted, and its scheme restored.
//!
//! [`crate::forwarded`] decides on the scheme; the life of contexts is in [`crate::lifecycle`].

mod counting;
mod headers;
mod metrics;
mod plugin;
pub(crate) mod rules;
mod scheme;

#[cfg(all(test, not(target_arch = "wasm32")))]
pub(crate) use counting::Counted;
pub(crate) use counting::Stream;
pub(crate) use plugin::Plugin;
