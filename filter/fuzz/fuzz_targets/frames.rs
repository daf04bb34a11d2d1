//! However a stream of bytes is cut, the follower of WebSocket frames finds the places between
//! frames that a naive parser of the whole finds, and none within a frame or behind garbage.
#![no_main]

use laststream_filter::frames::follower::{Follower, Position, Writer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [options, cut, bytes @ ..] = input else { return };
    let writer = if options & 1 == 0 { Writer::Server } else { Writer::Client };
    let (expected, end) = naive(bytes, writer == Writer::Client);
    let mut follower = Follower::new(writer);
    let mut found = Vec::new();
    let mut start = 0;
    for (index, chunk) in bytes.chunks(usize::from(*cut).max(1)).enumerate() {
        // Every other chunk is skipped as far as the follower allows, as the filter does with
        // payloads.
        let skips = options & 2 != 0 && index % 2 == 0;
        follow(&mut follower, chunk, start, skips, &mut found);
        start += chunk.len();
    }
    assert_eq!(found, expected);
    match end {
        End::Garbage => assert_eq!(follower.position(), Position::Garbage),
        End::Closed => assert_eq!(follower.position(), Position::Closed),
        End::Between | End::Within => {}
    }
});

fn follow(
    follower: &mut Follower,
    chunk: &[u8],
    start: usize,
    skips: bool,
    found: &mut Vec<usize>,
) {
    let mut at = 0;
    while at < chunk.len() {
        let skipped = if skips { follower.skip(chunk.len() - at) } else { 0 };
        let step = if skipped > 0 { skipped } else { follower.read(&chunk[at..]) };
        assert!(step > 0, "no progress");
        at += step;
        if matches!(follower.position(), Position::BetweenMessages | Position::BetweenFragments) {
            found.push(start + at);
        }
    }
}

enum End {
    Between,
    Within,
    Closed,
    Garbage,
}

/// The ends of all complete frames but the close frame, and the state behind them.
fn naive(bytes: &[u8], is_masked: bool) -> (Vec<usize>, End) {
    let (mut ends, mut at, mut in_message) = (Vec::new(), 0, false);
    loop {
        let rest = &bytes[at..];
        let Some(&first) = rest.first() else { return (ends, End::Between) };
        let (fin, rsv, opcode) = (first >> 7 == 1, first >> 4 & 7, first & 15);
        let is_right = match opcode {
            0 => in_message && rsv == 0,
            1 | 2 => !in_message && rsv & 3 == 0,
            8..=10 => fin && rsv == 0,
            _ => false,
        };
        if !is_right {
            return (ends, End::Garbage);
        }
        let Some(&second) = rest.get(1) else { return (ends, End::Within) };
        let length = u64::from(second & 127);
        if (second >> 7 == 1) != is_masked || opcode >= 8 && length > 125 {
            return (ends, End::Garbage);
        }
        let extended = match length {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        if length == 127 && rest.get(2).is_some_and(|byte| *byte >= 128) {
            return (ends, End::Garbage);
        }
        let Some(number) = rest.get(2..2 + extended) else { return (ends, End::Within) };
        let payload = match extended {
            0 => length,
            _ => number.iter().fold(0, |number, byte| number * 256 + u64::from(*byte)),
        };
        let header = 2 + extended + if is_masked { 4 } else { 0 };
        let whole = u128::from(payload) + header as u128;
        if rest.len() as u128 >= whole {
            at += whole as usize;
        } else {
            return (ends, End::Within);
        }
        if opcode == 8 {
            return (ends, End::Closed);
        }
        if opcode < 8 {
            in_message = !fin;
        }
        ends.push(at);
    }
}
