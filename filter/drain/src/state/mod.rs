//! The state of a drain, its configuration and its times. Nothing here asks or answers.

pub(crate) mod agent;
pub(crate) mod count_state;
pub(crate) mod ends;
pub(crate) mod kinds;
pub(crate) mod moments;
pub(crate) mod observation;
pub(crate) mod pacing;
pub(crate) mod phase;
pub(crate) mod policy;
pub(crate) mod record;
pub(crate) mod routes;
pub(crate) mod scope;
pub(crate) mod shared;
pub(crate) mod step;
pub mod timing;

pub(crate) use agent::AgentTurn;
pub use agent::{Agent, AgentReplies, AgentReply, AgentState};
pub use count_state::CountState;
pub use ends::{EndPolicy, EndProgress, Window};
pub use kinds::{Kinds, StreamKind};
pub use moments::{Millis, Moment, Queue, StreamNumber};
pub use observation::{App, Begun, EnvoyCount, Observation, Reason, combine_counts};
pub(crate) use pacing::valid_for;
pub use pacing::{QueryPacing, RunningQuery};
pub use phase::Phase;
pub use policy::{BeginCall, DrainPolicy, Finish};
pub use record::{Action, Record};
pub use routes::Routes;
pub use scope::Scope;
pub use shared::{AppReply, Lead, Shared, Total};
pub(crate) use step::text_after;
pub use step::{CallEnd, FROM_UPSTREAM, Step};
