//! What the gate is asked, what it holds, and what it answers and does next.

pub(crate) mod effects;
pub(crate) mod end_status;
pub(crate) mod event;
pub(crate) mod schedule;
pub(crate) mod signal;
pub(crate) mod signals;
pub(crate) mod status;
pub(crate) mod view;
pub(crate) mod waiting;
pub(crate) mod words;

#[cfg(test)]
mod decision_tests;

pub use effects::{Answer, CLUSTERS, Call, Cancelled, Effect, Effects, GateMetric, Level};
pub use end_status::EndStatus;
pub use event::{Client, Command, Ended, Event, Hold};
pub(crate) use schedule::{Schedule, StatsQuery};
pub(crate) use signals::{LatchedSignal, Origin, Refusal, Shown, SignalStep, step_of_held};

pub use signal::{QUIT, Signal};
pub use status::{Listings, Outcome, Progress, ScopeStatus, Status};
pub(crate) use view::View;
pub(crate) use waiting::{HeldSignal, Needs, Waiter, Waiting, WaitsFor};
pub use words::ADVICE;
