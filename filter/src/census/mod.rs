//! The protocol between the counters and the gate.
//!
//! Each counter registers a queue in a shared index. The gate queries all of them; only live VMs
//! reply. A gauge of zero alone is not proof: the filter may not be loaded, or a VM may have died
//! with streams in its count. The gate's conclusions from the replies live in [`crate::gate`].

mod asking;
mod count_state;
mod counting;
mod end_asking;
pub(crate) mod ender;
pub(crate) mod ending;
pub(crate) mod frames;
pub(crate) mod index;
mod kinds;
pub(crate) mod latch;
mod listing;
mod messages;
mod survey;

pub(crate) use asking::{Census, RequestOptions, WRITE_OFF_AFTER};
pub use count_state::CountState;
pub(crate) use counting::Counter;
#[cfg(all(test, not(target_arch = "wasm32")))]
pub(crate) use counting::CounterFields;
pub(crate) use end_asking::{EndOrder, EndSurvey, MOST_ORDERED};
pub(crate) use ending::{EndFilter, EndManner};
pub(crate) use index::{is_rejected, reject};
pub use kinds::StreamKind;
pub(crate) use kinds::{KeptKind, Kinds};
pub(crate) use listing::{ListedStream, ListingLine, insert_lowest};
pub(crate) use messages::LatchCheck;
pub(crate) use survey::{Sides, Survey, SurveyOptions};
