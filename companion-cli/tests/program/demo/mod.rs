//! `laststream demo`, run as people run it, on real Envoys.

mod ends;
mod outcome;
mod support;
