//! The record as text, for the shared data that all workers' VMs see. A record that cannot be read, of another version, is none.

use super::machine::{Phase, Record, Step};
use crate::host::{Control, change};
use crate::pieces::{Piece as _, text};

/// Where it is.
const RECORD: &str = "laststream.gate";

const VERSION: &str = "1";

/// Writes it: numbers with blanks between them, the reason last.
pub(crate) fn write(record: &Record) -> String {
    let phase = Phase::ALL.iter().position(|phase| *phase == record.phase).unwrap_or_default() as u64;
    let [begin, finish] = [record.begin, record.finish].map(numbers);
    let numbers = [
        phase,
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
    let mut text = String::from(VERSION);
    for number in numbers {
        text.push(' ');
        number.add(&mut text);
    }
    text![text, " ", record.why]
}

pub(crate) fn read(text: &[u8]) -> Option<Record> {
    let text = std::str::from_utf8(text).ok()?;
    let mut words = text.splitn(17, ' ');
    if words.next() != Some(VERSION) {
        return None;
    }
    let mut number = || words.next()?.parse::<u64>().ok();
    Some(Record {
        phase: *Phase::ALL.get(usize::try_from(number()?).ok()?)?,
        began: number()?,
        deadline: number()?,
        ended: number()?,
        begun_before: number()?,
        begun_last: number()?,
        quiet_since: number()?,
        begin: step(number()?, number()?, number()?)?,
        finish: step(number()?, number()?, number()?)?,
        heals: number()?,
        said: number()?,
        why: words.next().unwrap_or_default().into(),
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
pub(super) fn update<T>(host: &impl Control, mut work: impl FnMut(&mut Record) -> T) -> T {
    let mut result = None;
    update_record(host, &mut |record| result = Some(work(record)));
    result.unwrap_or_else(|| work(&mut Record::default()))
}

fn update_record(host: &impl Control, work: &mut dyn FnMut(&mut Record)) {
    change(host, RECORD, &mut |text| {
        let before = text.and_then(read).unwrap_or_default();
        let mut after = before.clone();
        work(&mut after);
        (after != before || text.is_none()).then(|| write(&after).into_bytes())
    });
}
