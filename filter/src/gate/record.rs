//! The record as text in shared data, which the VMs of all workers see. A text of another version
//! is ignored.
//!
//! Each gate has its own record, because two gates on one Envoy wait for different streams, and
//! neither may open the other.

use strum::VariantArray as _;

use super::machine::Record;
use super::phase::Phase;
use super::step::Step;
use crate::config::wire::Scope;
use crate::host::{Control, compare_and_set_shared};
use crate::parse;

const VERSION: &str = "2";

/// Numbers separated by blanks, the reason last.
pub(crate) fn to_text(record: &Record) -> String {
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
        record.logged_at,
    ];
    let mut text = String::from(VERSION);
    for number in numbers {
        text.push_str(&format!(" {number}"));
    }
    text + " " + &record.force_reason
}

pub(crate) fn parse(text: &[u8]) -> Option<Record> {
    let text = core::str::from_utf8(text).ok()?;
    let mut words = text.splitn(16, ' ');
    if words.next() != Some(VERSION) {
        return None;
    }
    let numbers: [u64; 14] = parse::numbers(&mut words)?;
    let [
        phase,
        began,
        deadline,
        ended,
        begun_before,
        begun_last,
        quiet_since,
        steps @ ..,
        logged_at,
    ] = numbers;
    let [begin_kind, begin_since, begin_tries, finish_kind, finish_since, finish_tries] = steps;
    Some(Record {
        phase: *Phase::VARIANTS.get(usize::try_from(phase).ok()?)?,
        began,
        deadline,
        ended,
        begun_before,
        begun_last,
        quiet_since,
        begin: step(begin_kind, begin_since, begin_tries)?,
        finish: step(finish_kind, finish_since, finish_tries)?,
        logged_at,
        force_reason: words.next().unwrap_or_default().into(),
    })
}

fn numbers(step: Step) -> (u64, u64, u64) {
    match step {
        Step::Due => (0, 0, 0),
        Step::UnderWay { since, tries } => (1, since, tries),
        Step::Done => (2, 0, 0),
        Step::Failed => (3, 0, 0),
    }
}

fn step(kind: u64, since: u64, tries: u64) -> Option<Step> {
    match kind {
        0 => Some(Step::Due),
        1 => Some(Step::UnderWay { since, tries }),
        2 => Some(Step::Done),
        3 => Some(Step::Failed),
        _ => None,
    }
}

/// The record of one gate, shared by its workers.
#[derive(Debug, Clone)]
pub(super) struct SharedRecord {
    pub(super) key: String,
}

impl SharedRecord {
    /// The record of the gate with these scopes, in the filter that is being configured. The name
    /// of the filter stays the same when the configuration or the module changes, so a drain goes
    /// on.
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
        host.get_shared_data(&self.key).and_then(|(text, _)| parse(&text)).unwrap_or_default()
    }

    /// Changes the record. If another worker has changed it meanwhile, `work` runs again on the new
    /// record.
    pub(super) fn update(&self, host: &impl Control, work: &mut dyn FnMut(&mut Record)) {
        compare_and_set_shared(host, &self.key, &mut |text| {
            let mut record = text.and_then(parse).unwrap_or_default();
            let before = to_text(&record);
            work(&mut record);
            let after = to_text(&record);
            (after != before || text.is_none()).then(|| after.into_bytes())
        });
    }
}
