//! Real Envoys on this machine: found or fetched ([`envoy`]), in front of an app ([`run`]), in the experiment of the write-ups ([`demo`]).

pub mod demo;
pub mod envoy;
pub mod run;
