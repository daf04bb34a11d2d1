//! The single steps of a callback, each with its own small state.

mod agent;
pub(crate) mod app;
pub(crate) mod apply;
mod call_ends;
pub(crate) mod callback;
mod cancelling;
pub(crate) mod end_orders;
pub(crate) mod leaks;
pub(crate) mod notify;
pub(crate) mod report;
mod routes;

pub(crate) use app::AppQuery;
pub(crate) use apply::Apply;
pub(crate) use callback::Callback;
pub(crate) use end_orders::EndOrders;
pub(crate) use leaks::LeakWatch;
