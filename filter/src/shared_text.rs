//! Values that the VMs of all workers share, as text in shared data. Modules of two versions run
//! side by side while the module is replaced, so each must read what the other has written, or
//! ignore it.

use crate::host::{Control, compare_and_set_shared};

/// A value that is stored as text.
pub(crate) trait SharedText: Default + Clone + PartialEq {
    /// Parses a text; none for a text of another version.
    fn parse(text: &str) -> Option<Self>;

    /// The text, for all versions of the module.
    fn to_text(&self) -> String;
}

/// The value, or the default if there is none.
pub(crate) fn read<T: SharedText>(host: &impl Control, key: &str) -> T {
    host.get_shared_data(key).and_then(|(text, _)| parse(&text)).unwrap_or_default()
}

/// Changes the value. If another worker has changed it meanwhile, `work` runs again on the new one.
/// False: every try failed.
pub(crate) fn update<T: SharedText>(
    host: &impl Control,
    key: &str,
    work: &mut dyn FnMut(&mut T),
) -> bool {
    compare_and_set_shared(host, key, &mut |text| {
        let before: T = text.and_then(parse).unwrap_or_default();
        let mut after = before.clone();
        work(&mut after);
        (after != before).then(|| after.to_text().into_bytes())
    })
}

/// Changes the value so that only one worker acts. `work` returns whether this worker may act.
pub(crate) fn claim<T: SharedText>(
    host: &impl Control,
    key: &str,
    work: &mut dyn FnMut(&mut T) -> bool,
) -> bool {
    let mut is_claimed = false;
    let is_changed = update(host, key, &mut |value: &mut T| is_claimed = work(value));
    is_claimed && is_changed
}

fn parse<T: SharedText>(text: &[u8]) -> Option<T> {
    T::parse(core::str::from_utf8(text).ok()?)
}

/// The text behind this version.
pub(crate) fn after_version<'t>(text: &'t str, version: &str) -> Option<&'t str> {
    text.strip_prefix(version)?.strip_prefix(' ')
}

/// A version, and numbers behind it.
pub(crate) fn numbers_to_text(version: &str, numbers: &[u64]) -> String {
    let mut text = String::from(version);
    for number in numbers {
        text.push_str(&format!(" {number}"));
    }
    text
}
