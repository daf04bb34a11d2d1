//! The texts of values that all workers share, and of messages between them: numbers in a fixed
//! order. Modules of two versions run side by side while the module is replaced, so a text has new
//! numbers only at its end, and is otherwise of another version. (JSON by serde would make the
//! module a quarter larger.)

use core::fmt::Write as _;

use laststream_drain::counts::{Endable, IndexEntry, LatchCheck, Order, Reply, Request};
use laststream_drain::state::{
    Agent, AgentReplies, AgentReply, App, AppReply, EndProgress, Kinds, Lead, Millis, Moment,
    Phase, QueryPacing, Queue, Record, Routes, RunningQuery, Scope, Shared, Step, Total,
};
use strum::VariantArray as _;

use crate::host::{Control, compare_and_set_shared};

/// The version of all texts.
const VERSION: &str = "1";

/// The numbers of a text, one after the other.
pub(crate) type Words<'t> = core::str::Split<'t, char>;

/// A value that is written as numbers.
pub(crate) trait Numbers: Sized {
    /// Appends its numbers.
    fn write(&self, text: &mut String);
    /// Reads them; none if they are too few or not valid.
    fn read(words: &mut Words<'_>) -> Option<Self>;
}

/// The text of a value.
pub(crate) fn to_text(value: &impl Numbers) -> String {
    let mut text = String::from(VERSION);
    value.write(&mut text);
    text
}

/// The value of a text; none if it is of another version.
pub(crate) fn parse<T: Numbers>(text: &str) -> Option<T> {
    let mut words = text.split(' ');
    (words.next() == Some(VERSION)).then(|| T::read(&mut words)).flatten()
}

/// The same for a message.
pub(crate) fn parse_message<T: Numbers>(message: &[u8]) -> Option<T> {
    parse(core::str::from_utf8(message).ok()?)
}

/// The same for shared data. The default if there is no valid text.
pub(crate) fn parse_or_default<T: Numbers + Default>(text: Option<&[u8]>) -> T {
    text.and_then(parse_message).unwrap_or_default()
}

/// Changes the value. If another worker has changed it meanwhile, `work` runs again on the new one.
/// False: every try failed.
pub(crate) fn update<T: Numbers + Default + Clone + PartialEq>(
    host: &impl Control,
    key: &str,
    work: &mut dyn FnMut(&mut T),
) -> bool {
    compare_and_set_shared(host, key, &mut |text| {
        let before: T = parse_or_default(text);
        let mut after = before.clone();
        work(&mut after);
        (after != before).then(|| to_text(&after).into_bytes())
    })
}

impl Numbers for u64 {
    fn write(&self, text: &mut String) {
        let _ = write!(text, " {self}"); // cannot fail for a String
    }

    fn read(words: &mut Words<'_>) -> Option<Self> {
        words.next()?.parse().ok()
    }
}

impl<T: Numbers> Numbers for Option<T> {
    fn write(&self, text: &mut String) {
        self.is_some().write(text);
        if let Some(value) = self {
            value.write(text);
        }
    }

    fn read(words: &mut Words<'_>) -> Option<Self> {
        Some(if bool::read(words)? { Some(T::read(words)?) } else { None })
    }
}

/// Types that are a number.
macro_rules! number {
    ($($type:ty: $to:expr, $from:expr;)+) => {$(
        impl Numbers for $type {
            fn write(&self, text: &mut String) {
                let to: fn(&$type) -> u64 = $to;
                to(self).write(text);
            }

            fn read(words: &mut Words<'_>) -> Option<Self> {
                let from: fn(u64) -> Option<$type> = $from;
                from(u64::read(words)?)
            }
        }
    )+};
}

number! {
    bool: |flag| u64::from(*flag), |number| Some(number != 0);
    u32: |number| u64::from(*number), |number| number.try_into().ok();
    usize: |number| *number as u64, |number| number.try_into().ok();
    Moment: |moment| moment.0, |number| Some(Moment(number));
    Millis: |millis| millis.0, |number| Some(Millis(number));
    Queue: |queue| queue.0.into(), |number| Some(Queue(number.try_into().ok()?));
    Kinds: |kinds| kinds.0.into(), |bits| Some(Kinds(bits as u8));
    AgentReply: |reply| *reply as u64,
        |number| AgentReply::VARIANTS.get(number as usize).copied();
    App: |app| *app as u64, |number| App::VARIANTS.get(number as usize).copied();
    Phase: |phase| *phase as u64, |number| Phase::VARIANTS.get(number as usize).copied();
    Scope: |scope| *scope as u64, |number| Scope::VARIANTS.get(number as usize).copied();
    LatchCheck: |check| *check as u64, |number| Some(match number {
        0 => LatchCheck::Off,
        1 => LatchCheck::ForAWhile,
        _ => LatchCheck::Always,
    });
}

/// Types that are the numbers of their fields.
macro_rules! fields {
    ($($type:ident { $($field:ident),+ })+) => {$(
        impl Numbers for $type {
            fn write(&self, text: &mut String) {
                let Self { $($field),+ } = self;
                $($field.write(text);)+
            }

            fn read(words: &mut Words<'_>) -> Option<Self> {
                Some(Self { $($field: Numbers::read(words)?),+ })
            }
        }
    )+};
}

pub(crate) use fields;

fields! {
    Total { at, requests, connections }
    AppReply { asked_at, state }
    AgentReplies { reply, count, first, last }
    Routes { let_pass, told_at, has_failed, is_sure }
    Agent { has_answered, asked_at, is_asked, replies, drain }
    Lead { gate, until }
    EndProgress { began, last, ordered, stopped }
    RunningQuery { began, limit, owner }
    QueryPacing { running, next, took, busy, unanswered }
    Record {
        phase, began, deadline, ended, begun_before, begun_last, quiet_since, unproven_since, begin,
        finish, logged_at, force_reason
    }
    Shared {
        pacing, ends, notify, app, total, sums_lack_streams, lead, evaluated_at, record, agent,
        routes
    }
    IndexEntry { queue, scope, since, written_off }
    Order {
        count, kinds, changing, began_before, retry_after, grace, look_since, drain
    }
    Request {
        reply_to, round, latch_check, sent_at, long_lived_before, list_limit, plain_only, order
    }
    Endable { streams, unseen }
    Reply { queue, in_flight, long_lived, excluded, round, requested_at, endable }
}

impl Numbers for [u64; 2] {
    fn write(&self, text: &mut String) {
        self.iter().for_each(|number| number.write(text));
    }

    fn read(words: &mut Words<'_>) -> Option<Self> {
        Some([u64::read(words)?, u64::read(words)?])
    }
}

impl<T: Numbers> Numbers for Vec<T> {
    fn write(&self, text: &mut String) {
        self.len().write(text);
        self.iter().for_each(|item| item.write(text));
    }

    fn read(words: &mut Words<'_>) -> Option<Self> {
        let length = usize::read(words)?;
        (0..length).map(|_| T::read(words)).collect()
    }
}

/// The bytes of a text, which may have blanks.
impl Numbers for String {
    fn write(&self, text: &mut String) {
        self.len().write(text);
        self.bytes().for_each(|byte| u32::from(byte).write(text));
    }

    fn read(words: &mut Words<'_>) -> Option<Self> {
        let length = usize::read(words)?;
        let bytes: Option<Vec<u8>> =
            (0..length).map(|_| u32::read(words)?.try_into().ok()).collect();
        String::from_utf8(bytes?).ok()
    }
}

impl Numbers for Step {
    fn write(&self, text: &mut String) {
        let (kind, at, tries) = match *self {
            Self::Due => (0, Moment(0), 0),
            Self::Sent { since, tries } => (1, since, tries),
            Self::Again { at, tries } => (2, at, tries),
            Self::Done => (3, Moment(0), 0),
            Self::Failed => (4, Moment(0), 0),
        };
        u64::write(&kind, text);
        at.write(text);
        u64::write(&tries, text);
    }

    fn read(words: &mut Words<'_>) -> Option<Self> {
        let (kind, at, tries) = (u64::read(words)?, Moment::read(words)?, u64::read(words)?);
        Some(match kind {
            0 => Self::Due,
            1 => Self::Sent { since: at, tries },
            2 => Self::Again { at, tries },
            3 => Self::Done,
            4 => Self::Failed,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use core::fmt::Debug;

    use laststream_drain::state::StreamKind;
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;

    fn is_kept<T: Numbers + Debug + PartialEq>(value: &T) {
        let text = to_text(value);
        assert_eq!(parse::<T>(&text).as_ref(), Some(value), "{text}");
        let later = format!("{text} 7 later");
        assert_eq!(parse::<T>(&later).as_ref(), Some(value), "new numbers stand at the end");
        let shorter = text.rsplit_once(' ').map(|(text, _)| text).expect("numbers");
        assert_eq!(parse::<T>(shorter), None, "{shorter}");
        assert_eq!(parse::<T>(&text.replacen('1', "2", 1)), None, "another version");
    }

    /// A drain goes on through an upgrade, and through a downgrade.
    #[wasm_bindgen_test(unsupported = test)]
    fn every_value_is_the_same_after_a_round_trip() {
        let mut shared = Shared::default();
        is_kept(&shared);
        assert!(shared.pacing.begin(Moment(1), Millis(u64::MAX), Queue(u32::MAX)));
        shared.ends.began = Some(Moment(0));
        shared.lead = Some(Lead { gate: Queue(2), until: Moment(3) });
        shared.record.force_reason = "why not: \u{20ac}".into();
        for step in [
            Step::Due,
            Step::Sent { since: Moment(1), tries: 2 },
            Step::Again { at: Moment(1), tries: 2 },
            Step::Done,
            Step::Failed,
        ] {
            (shared.notify, shared.record.begin) = (step, step);
            is_kept(&shared);
        }
        for phase in Phase::VARIANTS {
            shared.record.phase = *phase;
            is_kept(&shared);
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn every_message_is_the_same_after_a_round_trip() {
        let kinds = Kinds::of(&[StreamKind::Waiting, StreamKind::Grpc]);
        let order = Order { count: u64::MAX, kinds, retry_after: [1, 2], ..Order::default() };
        for (latch_check, order) in [
            (LatchCheck::Off, None),
            (LatchCheck::ForAWhile, Some(order)),
            (LatchCheck::Always, None),
        ] {
            is_kept(&Request { latch_check, order, list_limit: 7, ..Request::default() });
        }
        let endable = Some(Endable { streams: 1, unseen: 2 });
        is_kept(&Reply { queue: Queue(7), in_flight: u64::MAX, endable, ..Reply::default() });
        for scope in Scope::VARIANTS {
            let (queue, since) = (Queue(1), Moment(2));
            let written_off = Some(Moment(4));
            is_kept(&IndexEntry { queue, scope: *scope, since, written_off });
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn other_texts_are_no_values() {
        for text in ["", "1", "1 ", "1 x", "wake", "2 0 0", "1 -1", "1 18446744073709551616"] {
            assert_eq!(parse::<Shared>(text), None, "{text}");
            assert_eq!(parse::<Reply>(text), None, "{text}");
        }
        assert_eq!(parse_or_default::<Shared>(Some(b"\xfe")), Shared::default());
        assert_eq!(parse::<Phase>("1 99"), None);
    }
}
