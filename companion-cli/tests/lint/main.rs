//! `laststream lint`: every rule with a bad and a good example, the manifests that people really
//! have, damaged input, output, speed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the whole program is a test"
)]

mod changes;
mod command;
mod damage;
mod edits;
mod examples;
mod load;
mod output;
mod policies;
mod reading;
mod recall;
mod support;
mod times;
mod variants;
