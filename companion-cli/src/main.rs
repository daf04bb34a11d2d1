//! The `laststream` command line.

fn main() {}
