//! Unit tests and property tests of the follower.

use wasm_bindgen_test::wasm_bindgen_test;

use super::{Follower, Position, Writer};

/// Reads all bytes as one chunk; returns the places between frames, with their positions.
fn boundaries(follower: &mut Follower, bytes: &[u8]) -> Vec<(usize, Position)> {
    let mut at = 0;
    let mut found = Vec::new();
    while at < bytes.len() {
        at += follower.read(&bytes[at..]);
        if !matches!(follower.position(), Position::InFrame | Position::Garbage | Position::Closed)
        {
            found.push((at, follower.position()));
        }
    }
    found
}

fn position_after(writer: Writer, bytes: &[u8]) -> Position {
    let mut follower = Follower::new(writer);
    boundaries(&mut follower, bytes);
    follower.position()
}

#[wasm_bindgen_test(unsupported = test)]
fn skips_a_long_payload_without_its_bytes() {
    let mut follower = Follower::new(Writer::Server);
    assert_eq!(follower.skip(100), 0, "a header must be read");
    assert_eq!(follower.read(&[0x82, 127, 0x7f, 0, 0, 0, 0, 0, 0, 1]), 10);
    let mut missing = 0x7f00_0000_0000_0001_u64;
    while missing > 0 {
        let available = usize::try_from(missing).unwrap_or(usize::MAX);
        missing -= follower.skip(available) as u64;
    }
    assert_eq!((follower.position(), follower.skip(5)), (Position::BetweenMessages, 0));
}

#[wasm_bindgen_test(unsupported = test)]
fn nothing_may_follow_a_close_frame() {
    for bytes in [&[0x88, 0][..], &[0x88, 2, 3, 0xe8], &[0x88, 0, 0x81, 0, 0xff, 0xff]] {
        assert_eq!(position_after(Writer::Server, bytes), Position::Closed, "{bytes:?}");
    }
    let mut follower = Follower::new(Writer::Client);
    follower.read(&[0x88, 0x82, 0, 0, 0]);
    assert!(!follower.is_closing(), "its header is not complete");
    follower.read(&[0]);
    assert_eq!((follower.position(), follower.is_closing()), (Position::InFrame, true));
    follower.read(&[3, 0xe8]);
    assert_eq!((follower.position(), follower.is_closing()), (Position::Closed, true));
}

#[wasm_bindgen_test(unsupported = test)]
fn bytes_that_are_not_a_frame_are_garbage_for_ever() {
    let cases: [(&str, Writer, &[u8]); 12] = [
        ("an unknown opcode", Writer::Server, &[0x83]),
        ("an unknown control opcode", Writer::Server, &[0x8b]),
        ("RSV2", Writer::Server, &[0xa1]),
        ("RSV3", Writer::Server, &[0x91]),
        ("a compressed control frame", Writer::Server, &[0xc9]),
        ("a fragmented control frame", Writer::Server, &[0x09]),
        ("a long control frame", Writer::Server, &[0x89, 126]),
        ("a continuation of nothing", Writer::Server, &[0x80]),
        ("a message inside of a message", Writer::Server, &[0x01, 0, 0x81]),
        ("a compressed continuation", Writer::Server, &[0x01, 0, 0xc0]),
        ("a length with the highest bit", Writer::Server, &[0x82, 127, 0x80]),
        ("HTTP", Writer::Server, b"HTTP/1.1 200 OK"),
    ];
    let masks: [(&str, Writer, &[u8]); 2] = [
        ("a masked frame of the server", Writer::Server, &[0x81, 0x80]),
        ("an unmasked frame of the client", Writer::Client, &[0x81, 0]),
    ];
    for (what, writer, bytes) in cases.into_iter().chain(masks) {
        let mut follower = Follower::new(writer);
        boundaries(&mut follower, bytes);
        assert_eq!(follower.position(), Position::Garbage, "{what}");
        assert_eq!(follower.read(&[0x81, 0]), 2, "{what}");
        assert_eq!((follower.position(), follower.is_closing()), (Position::Garbage, false));
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod properties {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::{Follower, Position, Writer, boundaries};

    /// A frame as it is written: its first byte, and its payload.
    type Frame = (u8, Vec<u8>);

    /// Lengths on both sides of every limit.
    fn payload(longest: usize) -> impl Strategy<Value = Vec<u8>> {
        let length = prop_oneof![0..8_usize, 120..130_usize, 65_530..65_540_usize];
        (length, any::<u8>()).prop_map(move |(length, byte)| vec![byte; length.min(longest)])
    }

    fn control() -> impl Strategy<Value = Frame> {
        (prop_oneof![Just(0x89), Just(0x8a)], payload(125))
    }

    /// A message of one or more fragments, with control frames before and between them.
    fn message() -> impl Strategy<Value = Vec<Frame>> {
        let fragment = (payload(usize::MAX), vec(control(), 0..2));
        (prop_oneof![Just(1_u8), Just(2)], any::<bool>(), vec(fragment, 1..4)).prop_map(
            |(opcode, is_compressed, fragments)| {
                let last = fragments.len() - 1;
                let mut frames = Vec::new();
                for (index, (payload, controls)) in fragments.into_iter().enumerate() {
                    let fin = if index == last { 0x80 } else { 0 };
                    let compressed = if is_compressed { 0x40 } else { 0 };
                    let start = if index == 0 { opcode | compressed } else { 0 };
                    frames.extend(controls);
                    frames.push((fin | start, payload));
                }
                frames
            },
        )
    }

    fn encode(frame: &Frame, writer: Writer) -> Vec<u8> {
        let (first, payload) = frame;
        let mask = if writer == Writer::Client { 0x80 } else { 0 };
        let mut bytes = vec![*first];
        match payload.len() {
            length @ 0..126 => bytes.push(mask | length as u8),
            length @ 126..65_536 => {
                bytes.push(mask | 126);
                bytes.extend((length as u16).to_be_bytes());
            }
            length => {
                bytes.push(mask | 127);
                bytes.extend((length as u64).to_be_bytes());
            }
        }
        if writer == Writer::Client {
            bytes.extend([9, 8, 7, 6]);
        }
        bytes.extend(payload);
        bytes
    }

    fn writers() -> impl Strategy<Value = Writer> {
        prop_oneof![Just(Writer::Client), Just(Writer::Server)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// However the bytes are cut, every place between two frames is found, and no other.
        #[test]
        fn any_cut_of_any_valid_sequence_has_the_same_boundaries(
            writer in writers(),
            messages in vec(message(), 1..4),
            cuts in vec(1..20_000_usize, 1..40),
        ) {
            let mut bytes = Vec::new();
            let mut expected = Vec::new();
            let mut position = Position::BetweenMessages;
            for frame in messages.iter().flatten() {
                bytes.extend(encode(frame, writer));
                position = match frame.0 {
                    first if first & 0x0f >= 8 => position,
                    first if first & 0x80 == 0 => Position::BetweenFragments,
                    _ => Position::BetweenMessages,
                };
                expected.push((bytes.len(), position));
            }
            let mut follower = Follower::new(writer);
            let (mut found, mut start) = (Vec::new(), 0);
            for cut in cuts.iter().cycle() {
                let end = bytes.len().min(start + cut);
                let inside = boundaries(&mut follower, &bytes[start..end]);
                found.extend(inside.into_iter().map(|(at, position)| (start + at, position)));
                start = end;
                if start == bytes.len() {
                    break;
                }
            }
            prop_assert_eq!(found, expected);
            prop_assert_eq!(follower.position(), Position::BetweenMessages);
        }

        /// Any bytes, in any pieces: no panic, and every byte is read.
        #[test]
        fn any_bytes_are_read(writer in writers(), pieces in vec(vec(any::<u8>(), 1..40), 0..20)) {
            let mut follower = Follower::new(writer);
            for piece in &pieces {
                let was_garbage = follower.position() == Position::Garbage;
                boundaries(&mut follower, piece);
                prop_assert!(!was_garbage || follower.position() == Position::Garbage);
            }
        }
    }
}
