//! The record as text, for the shared data that all workers' VMs see. A record that cannot be read,
//! of another version, is none.
//!
//! Each gate has a record of its own: two gates on one Envoy wait for different streams, and
//! neither may open the other.

use strum::VariantArray as _;

use super::machine::{Phase, Record, Step};
use crate::config::wire::Scope;
use crate::host::{Control, change};
use crate::parse;

const VERSION: &str = "2";

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
        record.said,
    ];
    let mut text = String::from(VERSION);
    for number in numbers {
        text.push_str(&format!(" {number}"));
    }
    text + " " + &record.why
}

pub(crate) fn read(text: &[u8]) -> Option<Record> {
    let text = core::str::from_utf8(text).ok()?;
    let mut words = text.splitn(16, ' ');
    if words.next() != Some(VERSION) {
        return None;
    }
    let [
        phase,
        began,
        deadline,
        ended,
        begun_before,
        begun_last,
        quiet_since,
        b0,
        b1,
        b2,
        f0,
        f1,
        f2,
        said,
    ] = parse::numbers(&mut words)?;
    Some(Record {
        phase: *Phase::VARIANTS.get(usize::try_from(phase).ok()?)?,
        began,
        deadline,
        ended,
        begun_before,
        begun_last,
        quiet_since,
        begin: step(b0, b1, b2)?,
        finish: step(f0, f1, f2)?,
        said,
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

/// The record of one gate, as all its workers share it.
#[derive(Debug, Clone)]
pub(super) struct SharedRecord {
    pub(super) key: String,
}

impl SharedRecord {
    /// The record of the gate with these scopes, in the filter that is configured now. The filter's
    /// name stays through configurations and versions of the module, so a drain goes on; another
    /// filter is another gate.
    pub(super) fn of_this_filter(host: &impl Control, scopes: &[Scope]) -> Self {
        let mut key = String::from("laststream.gate");
        for scope in Scope::VARIANTS.iter().filter(|scope| scopes.contains(scope)) {
            key.push_str(&format!(".{scope}"));
        }
        for property in ["plugin_name", "plugin_root_id"] {
            key.push_str(&format!(
                " {}",
                String::from_utf8_lossy(&host.property(property).unwrap_or_default())
            ));
        }
        Self { key }
    }

    pub(super) fn read(&self, host: &impl Control) -> Record {
        host.shared(&self.key).and_then(|(text, _)| read(&text)).unwrap_or_default()
    }

    /// Changes the record, also if another worker was quicker: then the change is made again, on
    /// what the other left.
    pub(super) fn update(&self, host: &impl Control, work: &mut dyn FnMut(&mut Record)) {
        change(host, &self.key, &mut |text| {
            let mut record = text.and_then(read).unwrap_or_default();
            let before = write(&record);
            work(&mut record);
            let after = write(&record);
            (after != before || text.is_none()).then(|| after.into_bytes())
        });
    }
}
