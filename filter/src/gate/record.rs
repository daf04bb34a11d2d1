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
use crate::shared_text::{after_version, numbers_to_text};

/// The version of the text, which every earlier version of the module reads and writes. A new value
/// gets a key of its own, because a drain goes on through an upgrade, and through a downgrade.
const VERSION: &str = "2";

/// The record as numbers separated by blanks, with the reason last.
pub(crate) fn to_text(record: &Record) -> String {
    let [begin, finish] = [record.begin, record.finish].map(Step::to_numbers);
    let numbers = [
        record.phase as u64,
        record.began,
        record.deadline,
        record.ended,
        record.begun_before,
        record.begun_last,
        record.quiet_since,
        begin[0],
        begin[1],
        begin[2],
        finish[0],
        finish[1],
        finish[2],
        record.logged_at,
    ];
    numbers_to_text(VERSION, &numbers) + " " + &record.force_reason
}

pub(crate) fn parse(text: &[u8]) -> Option<Record> {
    let text = core::str::from_utf8(text).ok()?;
    let mut words = after_version(text, VERSION)?.splitn(15, ' ');
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
    let [begin_kind, begin_since, begin_tries, finish @ ..] = steps;
    Some(Record {
        phase: *Phase::VARIANTS.get(usize::try_from(phase).ok()?)?,
        began,
        deadline,
        ended,
        begun_before,
        begun_last,
        quiet_since,
        begin: Step::from_numbers([begin_kind, begin_since, begin_tries])?,
        finish: Step::from_numbers(finish)?,
        logged_at,
        force_reason: words.next().unwrap_or_default().into(),
    })
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

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Phase, Record, Step, parse, to_text};

    #[wasm_bindgen_test(unsupported = test)]
    fn the_text_keeps_the_format_of_earlier_versions() {
        let record = Record {
            phase: Phase::Draining,
            began: 10_000,
            deadline: 33_000,
            ended: 0,
            begun_before: 4,
            begun_last: 5,
            quiet_since: 6,
            begin: Step::Done,
            finish: Step::UnderWay { since: 7, tries: 1 },
            logged_at: 8,
            force_reason: "by hand  twice".into(),
        };
        let text = "2 1 10000 33000 0 4 5 6 2 0 0 1 7 1 8 by hand  twice";
        assert_eq!(to_text(&record), text);
        assert_eq!(parse(text.as_bytes()), Some(record));
        for text in
            ["", "2", "3 1 10000 33000 0 4 5 6 2 0 0 1 7 1 8 ", "2 9 0 0 0 0 0 0 0 0 0 0 0 0 0 "]
        {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
