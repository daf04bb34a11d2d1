//! `laststream lint`: every rule with a bad and a good example, the manifests that people really have, damaged input, output, speed.

mod examples;
mod support;
