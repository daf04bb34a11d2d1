//! How long streams last, and what follows: times of a drain, and what a rollout costs. Pure but
//! for [`prometheus`]: [`lifetimes`] what is known of streams, [`model`] what follows, [`report`]
//! the words.

pub mod files;
pub mod lifetimes;
pub mod model;
pub mod prometheus;
pub mod report;

pub use lifetimes::Lifetimes;
pub use model::{Fleet, Load, Plan, Prediction, Strategy};
