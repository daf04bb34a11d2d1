//! The record as text, for the shared data that all workers' VMs see. A record that cannot be read, of another version, is none.

use alloc::string::String;

use super::machine::{Phase, Record, Step};
use crate::host::{Control, change};
use crate::pieces::{self, text};
use crate::words::words;

/// Where it is.
const RECORD: &str = "laststream.gate";

const VERSION: &str = "1";

/// Writes it: numbers with blanks between them, the reason last.
pub(crate) fn write(record: &Record) -> String {
    let [begin, finish] = [record.begin, record.finish].map(numbers);
    let numbers = [
        record.phase as u64,
        record.began,
        record.deadline,
        record.ended,
        record.begun_before,
        record.begun_last,
        record.quiet_since,
        begin.0,
        begin.1,
        begin.2,
        finish.0,
        finish.1,
        finish.2,
        record.heals,
        record.said,
    ];
    text![pieces::numbers(VERSION, &numbers), " ", record.why]
}

pub(crate) fn read(text: &[u8]) -> Option<Record> {
    let text = core::str::from_utf8(text).ok()?;
    let mut words = words(text, b' ');
    if words.next() != Some(VERSION) {
        return None;
    }
    let [phase, began, deadline, ended, begun_before, begun_last, quiet_since, b0, b1, b2, f0, f1, f2, heals, said] = words.numbers()?;
    Some(Record {
        phase: *Phase::ALL.get(usize::try_from(phase).ok()?)?,
        began,
        deadline,
        ended,
        begun_before,
        begun_last,
        quiet_since,
        begin: step(b0, b1, b2)?,
        finish: step(f0, f1, f2)?,
        heals,
        said,
        why: words.rest().into(),
    })
}

fn numbers(step: Step) -> (u64, u64, u64) {
    match step {
        Step::Due => (0, 0, 0),
        Step::Under { since, tries } => (1, since, tries),
        Step::Done => (2, 0, 0),
        Step::Failed => (3, 0, 0),
    }
}

fn step(kind: u64, since: u64, tries: u64) -> Option<Step> {
    match kind {
        0 => Some(Step::Due),
        1 => Some(Step::Under { since, tries }),
        2 => Some(Step::Done),
        3 => Some(Step::Failed),
        _ => None,
    }
}

pub(super) fn read_record(host: &impl Control) -> Record {
    host.shared(RECORD).and_then(|(text, _)| read(&text)).unwrap_or_default()
}

/// Changes the record, also if another worker was quicker: then the change is made again, on what the other left.
pub(super) fn update(host: &impl Control, work: &mut dyn FnMut(&mut Record)) {
    change(host, RECORD, &mut |text| {
        let mut record = text.and_then(read).unwrap_or_default();
        let before = write(&record);
        work(&mut record);
        let after = write(&record);
        (after != before || text.is_none()).then(|| after.into_bytes())
    });
}
