//! The verbs over many pods, with a fake API server: paging, retries, refusals, the effect of one
//! pod's failure on the others, and requests to gates. The workspace's mesh tests use real ones.

mod access;
mod assess;
mod drains;
mod lint;
mod pods;
mod proxies;
mod rollout;
mod support;
mod usage;
