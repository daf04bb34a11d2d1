//! The parts of the `laststream` command line that do the work. They return data and report progress through [`progress::Progress`];
//! printing is left to the binary.

pub mod module;
