//! The examples, damaged in thousands of ways: no panic, no hang, and each finding is on a line of
//! its file.

use fastrand::Rng;
use laststream_lint::{Assume, LINTER, SourceFile, lint, output};

use crate::support::{Example, files, folder, of_rules, or_hangs};

const INPUTS: usize = 3_500;

/// A number below the limit; 0 if the limit is 0.
fn below(random: &mut Rng, limit: usize) -> usize {
    random.usize(..limit.max(1))
}

#[rustfmt::skip]
const PIECES: [&[u8]; 24] = [
    b"{", b"}", b"[", b"]", b": ", b"- ", b"&a ", b"*a", b"<<: *a\n", b"|\n", b">-\n", b"'", b"\"",
    b"#", b"\t", b"\r\n", b"---\n", b"\0", b"\xff", b"\xef\xbb\xbf", b"? ", b"!!str ",
    b"%YAML 1.1\n", b"\xe2\x80\xa8",
];

fn damaged(texts: &[Vec<u8>], random: &mut Rng) -> Vec<u8> {
    let mut bytes = texts[below(random, texts.len())].clone();
    for _ in 0..=below(random, 6) {
        let at = below(random, bytes.len());
        match below(random, 8) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.u8(..)),
            2 if !bytes.is_empty() => bytes[at] ^= 1 << below(random, 8),
            3 => {
                let piece = PIECES[below(random, PIECES.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
            4 => move_line(&mut bytes, random),
            5 => indent_line(&mut bytes, random),
            6 => {
                let end = (at + below(random, 200)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                let other = &texts[below(random, texts.len())];
                let from = below(random, other.len());
                let piece = other[from..(from + 300).min(other.len())].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

fn move_line(bytes: &mut Vec<u8>, random: &mut Rng) {
    let mut lines: Vec<Vec<u8>> =
        bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let (from, to) = (below(random, lines.len()), below(random, lines.len()));
    if !lines.is_empty() {
        let line = lines.remove(from);
        lines.insert(to.min(lines.len()), line);
    }
    *bytes = lines.concat();
}

fn indent_line(bytes: &mut Vec<u8>, random: &mut Rng) {
    let mut lines: Vec<Vec<u8>> =
        bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    if !lines.is_empty() {
        let at = below(random, lines.len());
        lines[at].splice(0..0, b"  ".iter().copied());
    }
    *bytes = lines.concat();
}

#[test]
fn damaged_input_causes_no_panic_and_no_hang() {
    let others = ["good", "write-ups"].into_iter().flat_map(|name| files(&folder(name)));
    let examples = of_rules().into_iter().chain(others.map(|path| Example::read(&path)));
    let texts: Vec<_> = examples.map(|example| example.text.into_bytes()).collect();
    or_hangs(move |begins| {
        let mut random = Rng::with_seed(0x1a57_57e4_a000_0001);
        let mut found = 0;
        for number in 0..INPUTS {
            begins(format!("input {number}"));
            found += findings_of(damaged(&texts, &mut random), number);
        }
        assert!(found > INPUTS, "{found} findings: the damage is not what it should be");
    });
}

/// The number of findings, each of which is on a line of the input.
fn findings_of(bytes: Vec<u8>, number: usize) -> usize {
    let count = |wanted| bytes.iter().filter(|byte| **byte == wanted).count();
    let lines = count(b'\n') + count(b'\r') + 2;
    let findings = lint(
        vec![SourceFile::new("damaged.yaml", bytes)],
        Assume { istio: Some((1, 29)), ..Assume::default() },
    )
    .unwrap();
    let shown = [
        output::text(&findings),
        output::json(&findings, output::Checked::Files(1), None),
        output::sarif(&LINTER, &findings, None),
    ];
    assert!(
        shown.iter().all(|text| text.len() < 10_000_000),
        "input {number} makes much of little"
    );
    for finding in &findings {
        let is_there = (1..=lines).contains(&(finding.line as usize)) && finding.column >= 1;
        assert!(is_there, "input {number}: {finding:?}");
    }
    findings.len()
}
