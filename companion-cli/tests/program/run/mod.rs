//! `laststream run` as developers use it: the binary itself, real Envoys, signals, files that
//! change.

mod access;
mod checkout;
mod ends;
mod policies;
mod starts;
mod support;
mod watches;
