//! Profiles: defaults of the policy's own fields for a kind of traffic. A field that is written
//! wins.

use std::fmt::Display;

use laststream_base::time_span::TimeSpan;

use crate::check::gate::has_gate;
use crate::file::{End, EndKind, File, LongLived, Profile};
use crate::placement::Placement;

/// Longer than nearly all answers of language models. Nodes that end sooner need a shorter time.
const LONGEST: TimeSpan = TimeSpan::seconds(300);
/// The ends of what never ends by itself: spread, and over before four fifths of the deadline have
/// passed, when the alert `LaststreamDrainNearDeadline` fires.
const BEFORE_DEADLINE: TimeSpan = TimeSpan::seconds(120);
const OVER: TimeSpan = TimeSpan::seconds(50);
/// Far longer than the heartbeats of event streams and WebSockets, so that silence of this length
/// means a client that has gone.
const IDLE: TimeSpan = TimeSpan::seconds(3_600);

/// The fields that a profile gave, with their values.
#[derive(Default)]
struct ProfileFields(Vec<String>);

impl ProfileFields {
    fn give<T>(&mut self, field: &mut Option<T>, name: &str, value: T, text: impl Display) {
        if field.is_none() {
            *field = Some(value);
            self.0.push(format!("{name}: {text}"));
        }
    }
}

/// Fills the fields that the profile has defaults for, and returns those that it gave.
pub(crate) fn fill(file: &mut File) -> Vec<String> {
    let mut fields = ProfileFields::default();
    match file.profile {
        Some(Profile::Streaming) => streaming(file, &mut fields),
        None => {}
    }
    fields.0
}

/// The defaults for streams that last for minutes. Without a gate the check refuses the profile.
fn streaming(file: &mut File, fields: &mut ProfileFields) {
    if file.placement.as_ref().is_some_and(Placement::limits_silence) {
        fields.give(&mut file.stream_idle, "stream_idle", IDLE, IDLE);
    }
    if !has_gate(file) {
        return;
    }
    let drain = &mut file.drain;
    let end = file.end.get_or_insert_default();
    let is_timed = [drain.longest_request, drain.deadline, drain.grace_period];
    if !is_timed.iter().any(Option::is_some) {
        fields.give(&mut drain.longest_request, "drain.longest_request", LONGEST, LONGEST);
        if end.at_age.is_none() {
            let before = &mut end.before_deadline;
            fields.give(before, "end.before_deadline", BEFORE_DEADLINE, BEFORE_DEADLINE);
        }
        fields.give(&mut end.over, "end.over", OVER, OVER);
    }
    if drain.long_lived != Some(LongLived::Exempt) {
        let End { websocket, event_stream, .. } = end;
        fields.give(websocket, "end.websocket", EndKind::End, "end");
        fields.give(event_stream, "end.event_stream", EndKind::End, "end");
    }
}
