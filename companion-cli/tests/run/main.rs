//! `laststream run` as developers use it: the binary itself, real Envoys, signals, files that
//! change.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the whole program is a test")]

mod access;
mod checkout;
mod ends;
mod policies;
mod starts;
mod support;
mod watches;
