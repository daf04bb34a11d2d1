//! The events of a lane with their times: written by all participants, read by the judge, the view
//! and the report.

use std::fmt;
use std::sync::Mutex;
use std::sync::mpsc::Sender;
use std::time::Duration;

use serde::Serialize;
use strum::IntoStaticStr;

use super::clock::Clock;
use super::lane::Lane;

/// A participant of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Actor {
    Client,
    Hook,
    /// Envoy and its agent.
    Gateway,
    /// The part that deletes the pod.
    Kubelet,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.into())
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// The time in seconds since both streams began.
    pub at: f64,
    pub who: Actor,
    pub what: String,
    /// The change of the lane's state, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<LaneMark>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneMark {
    Deleted,
    /// The client has the app's answer.
    Answered,
    /// The client will not get the app's answer.
    Lost,
    /// The app has closed the WebSocket.
    Closed,
    /// The WebSocket broke before the app closed it.
    Cut,
    /// Kubelet sends SIGKILL.
    Killed,
    EnvoyEnded,
}

/// The end of the stop hook.
#[derive(Debug, Clone)]
pub struct HookEnd {
    /// Whether the end of the grace period cut it.
    pub is_cut: bool,
    /// Its last words, or the thing that it still waited for.
    pub words: &'static str,
}

/// What the view is told while the lanes go on.
pub enum News {
    /// All lanes begin now.
    Began,
    Happened(Lane, Event),
}

/// The notes of one lane.
pub(super) struct Record<'a> {
    lane: Lane,
    clock: Clock,
    news: &'a Sender<News>,
    notes: Mutex<Notes>,
}

#[derive(Default)]
struct Notes {
    events: Vec<Event>,
    hook: Option<HookEnd>,
}

impl<'a> Record<'a> {
    pub(super) fn new(lane: Lane, clock: Clock, news: &'a Sender<News>) -> Self {
        Self { lane, clock, news, notes: Mutex::default() }
    }

    pub(super) fn note(&self, who: Actor, what: impl Into<String>) {
        self.add(who, what.into(), None);
    }

    pub(super) fn mark(&self, who: Actor, what: impl Into<String>, mark: LaneMark) {
        self.add(who, what.into(), Some(mark));
    }

    fn add(&self, who: Actor, what: String, mark: Option<LaneMark>) {
        let event = Event { at: seconds(self.clock.now()), who, what, mark };
        // A view that has ended needs no news.
        let _ = self.news.send(News::Happened(self.lane, event.clone()));
        if let Ok(mut notes) = self.notes.lock() {
            notes.events.push(event);
        }
    }

    pub(super) fn hook_ended(&self, words: &'static str, is_cut: bool) {
        if let Ok(mut notes) = self.notes.lock() {
            notes.hook = Some(HookEnd { is_cut, words });
        }
    }

    pub(super) fn finish(self) -> (Vec<Event>, Option<HookEnd>) {
        let mut notes = self.notes.into_inner().unwrap_or_default();
        notes.events.sort_by(|one, other| one.at.total_cmp(&other.at));
        (notes.events, notes.hook)
    }
}

/// The seconds, rounded to hundredths.
pub(super) fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 100.0).round() / 100.0
}
