//! Sizes a drain: [`lifetimes`] describes how long streams last, [`model`] computes the times of a
//! drain and the costs of a rollout, [`report`] formats them. All but [`prometheus`] is pure.

pub mod files;
pub mod lifetimes;
pub mod model;
pub mod prometheus;
pub mod report;

pub use lifetimes::Lifetimes;
pub use model::{Fleet, Load, Plan, Prediction, Strategy};
