//! What a counting root tells of its streams one by one: which are the oldest, and which are older
//! than a moment.
//!
//! Asked for between requests, where header maps must not be touched, and properties can be read in
//! the stream's own context.

use crate::host::Control;
use crate::parse::{self, printable_line};
use crate::stream::Stream;

/// Shows a root's streams one by one, with their contexts.
pub(crate) type Each<'e> = &'e mut dyn FnMut(&mut dyn FnMut(u32, &mut Stream));

/// Keeps a list of keys, each with something small, sorted and short: the lowest come first, and no
/// more than so many of them.
pub(crate) fn keep_lowest(list: &mut Vec<(u64, usize)>, most: usize, key: u64, item: usize) {
    let place = list.partition_point(|(other, _)| *other <= key);
    if place < most {
        list.truncate(most - 1);
        list.insert(place, (key, item));
    }
}

/// Reads wall-clock times of Envoy as times of the clock that never steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    now: u64,
    /// How far that clock is behind the wall clock now, and was before any stream that is there
    /// began: the lesser and the greater.
    behind: [u64; 2],
}

impl Clock {
    pub(crate) fn new(now: u64, behind: u64, before: u64) -> Self {
        Self { now, behind: [behind.min(before), behind.max(before)] }
    }

    /// Where the wall clock has stepped, a time is of before the step or of after it. The later
    /// reading is taken unless it is yet to come: a step must not make a stream older than it is,
    /// for older ones may hold no drain.
    fn read(self, wall: u64) -> u64 {
        let [later, earlier] = self.behind.map(|behind| wall.saturating_sub(behind));
        if later > self.now { earlier } else { later }
    }
}

/// Streams that began before that moment are long-lived from now on.
pub(crate) fn mark_older(host: &impl Control, each: Each<'_>, clock: Clock, moment: u64) {
    each(&mut |context, stream| {
        if stream.is_plain()
            && host.enter(context)
            && began(host, clock).is_some_and(|began| began < moment)
        {
            stream.live_long(host);
        }
    });
}

/// The oldest, a line each, of the fields that [`Line`] has. Envoy numbers contexts one after the
/// other, so the lowest are the oldest.
pub(crate) fn oldest(
    host: &impl Control,
    each: Each<'_>,
    clock: Clock,
    most: usize,
    plain_only: bool,
) -> String {
    let mut chosen = Vec::new();
    each(&mut |context, stream| {
        if stream.is_plain() || !plain_only && stream.is_long_lived() {
            keep_lowest(&mut chosen, most, context.into(), stream.is_long_lived().into());
        }
    });
    let mut lines = String::new();
    for (context, long) in chosen {
        host.enter(context as u32);
        let began = began(host, clock).unwrap_or_default();
        let (status, bytes) =
            (number(host, "response\0code"), number(host, "response\0total_size"));
        lines.push_str(&format!("{began}\t{long}\t{status}\t{bytes}\t"));
        for property in TEXTS {
            lines.push_str(&printable_line(&host.property(property).unwrap_or_default(), LONGEST));
            lines.push('\t');
        }
        lines.push('\n');
    }
    lines
}

/// Longer texts are cut: a listing is for people, and a path can be as long as a header may be.
const LONGEST: usize = 512;

/// In the order of [`Line`]'s texts. All can be read in every phase of a stream; the first, if the
/// operator has it written.
const TEXTS: [&str; 6] = [
    "filter_state\0laststream.request",
    "request\0protocol",
    "xds\0route_name",
    "xds\0cluster_name",
    "source\0address",
    "upstream\0address",
];

/// One stream of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line<'t> {
    /// Milliseconds of the clock that never steps.
    pub(crate) began: u64,
    pub(crate) long: bool,
    /// 0 as long as there is none.
    pub(crate) status: u64,
    pub(crate) bytes: u64,
    /// Request, protocol, route, cluster, peer, upstream; empty where there is none.
    pub(crate) texts: [&'t str; 6],
}

impl<'t> Line<'t> {
    pub(crate) fn read(line: &'t str) -> Option<Self> {
        let mut fields = line.split('\t');
        let [began, long, status, bytes] = parse::numbers(&mut fields)?;
        let mut texts = [""; 6];
        for text in &mut texts {
            *text = fields.next()?;
        }
        Some(Self { began, long: long == 1, status, bytes, texts })
    }
}

/// Envoy tells nanoseconds.
fn began(host: &impl Control, clock: Clock) -> Option<u64> {
    Some(number(host, "request\0time") / 1_000_000)
        .filter(|began| *began > 0)
        .map(|began| clock.read(began))
}

/// Numbers are eight bytes, the lowest first.
fn number(host: &impl Control, property: &str) -> u64 {
    host.property(property).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Clock, Line, keep_lowest};

    #[wasm_bindgen_test(unsupported = test)]
    fn keeps_the_lowest() {
        let numbers = [5, 3, 9, 1, 3, 7, 0, 8];
        for most in 1..=numbers.len() {
            let mut kept = Vec::new();
            for number in numbers {
                keep_lowest(&mut kept, most, number, 0);
            }
            let mut sorted = numbers;
            sorted.sort_unstable();
            assert!(kept.iter().map(|(key, _)| key).eq(&sorted[..most]), "{kept:?}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_step_of_the_wall_clock_makes_no_stream_older() {
        let read = |behind, before, wall| Clock::new(9_000, behind, before).read(wall);
        assert_eq!(read(1_000, 1_000, 1_500), 500);
        assert_eq!(read(121_000, 1_000, 1_500), 500, "it began before the step forward");
        assert_eq!(read(121_000, 1_000, 121_500), 500, "after it");
        assert_eq!(read(1_000, 121_000, 121_500), 500, "before the step back");
        assert_eq!(read(1_000, 121_000, 1_500), 500, "after it");
        assert_eq!(read(1_000, 2_000, 3_500), 2_500, "before or after a small step: the younger");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn reads_what_is_a_line() {
        let texts = ["GET a/b", "HTTP/1.1", "", "app", "10.0.0.1:80", ""];
        let line = Line { began: 7, long: true, status: 200, bytes: 12, texts };
        assert_eq!(
            Line::read("7\t1\t200\t12\tGET a/b\tHTTP/1.1\t\tapp\t10.0.0.1:80\t\t"),
            Some(line)
        );
        assert_eq!(Line::read("7\t1\t200\t12\tGET a/b"), None);
        assert_eq!(Line::read(""), None);
    }
}
