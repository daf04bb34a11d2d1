//! The protocol of the drain: events in, effects out. This crate knows no host: it cannot call
//! Envoy, nor read shared data. The filter's gate is the shell that reads the facts, calls
//! [`Worker::on`] and applies the effects.
//!
//! | module | holds |
//! |---|---|
//! | `protocol` | the one place to read the drain |
//! | [`state`] | the shared value, the configuration, and [every time](timing) with its reason |
//! | [`counts`] | the counters' replies, Envoy's own count, and both together |
//! | [`requests`] | what the gate is asked, holds, answers and does next |
//! | `steps` | the single steps of a callback |
//! | [`watchdog`] | whether a worker stands still, for a shell that is not among Envoy's workers |
//! | `sim` | a shell for tests, and what clients expect |
//!
//! The loop of a shell, here with [`sim::Sim`] in place of Envoy: a stop hook is held until the
//! stream in flight has ended and stayed ended.
//!
//! ```
//! use laststream_drain::requests::{Command, Effect, Event, Hold};
//! use laststream_drain::sim::Sim;
//! use laststream_drain::state::{Millis, DrainPolicy, StreamNumber};
//!
//! let hook = StreamNumber(5);
//! let mut sim = Sim::new(DrainPolicy::default());
//! sim.counts.scopes[0].gauges.in_flight = 1;
//! sim.request(hook, Command::PreStop(Hold::UntilOpen));
//! let mut answered_at = None;
//! for _ in 0..400 {
//!     sim.now = sim.now + Millis(10);
//!     if sim.now - sim.shared.record.began == Millis(1_500) {
//!         sim.counts.scopes[0].gauges.in_flight = 0; // the stream ends
//!     }
//!     sim.on(Event::Tick); // reads the facts, stores the shared value, applies the effects
//!     sim.reply(); // the counters do
//!     sim.answer_calls(); // Envoy's admin interface does
//!     let is_answer =
//!         |effect: &Effect| matches!(effect, Effect::Respond(stream, _) if *stream == hook);
//!     if answered_at.is_none() && sim.effects.iter().any(is_answer) {
//!         answered_at = Some(sim.now - sim.shared.record.began);
//!     }
//! }
//! let answered_at = answered_at.expect("the gate opens");
//! assert!(answered_at >= Millis(2_500) && answered_at < Millis(2_600), "{answered_at:?}");
//! ```

#![deny(missing_docs)]

pub mod counts;
mod protocol;
pub mod requests;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
pub mod state;
mod steps;
#[cfg(any(test, not(target_arch = "wasm32")))] // inside Envoy the workers reply themselves
pub mod watchdog;

pub use protocol::Worker;
pub use state::timing;
