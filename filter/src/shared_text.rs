//! Values that the VMs of all workers share, as JSON in shared data. Modules of two versions run
//! side by side while the module is replaced, so a value has new fields only with a default.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::host::{Control, compare_and_set_shared};

/// A value that can be shared.
pub(crate) trait SharedValue:
    Default + Clone + PartialEq + Serialize + DeserializeOwned
{
}

impl<T: Default + Clone + PartialEq + Serialize + DeserializeOwned> SharedValue for T {}

/// The value, or the default if there is none.
pub(crate) fn parse<T: SharedValue>(text: Option<&[u8]>) -> T {
    text.and_then(|text| serde_json::from_slice(text).ok()).unwrap_or_default()
}

/// The text of a value or a message.
pub(crate) fn to_text(value: &impl Serialize) -> String {
    // This can fail only for maps whose keys are not strings.
    serde_json::to_string(value).unwrap_or_default()
}

/// Changes the value. If another worker has changed it meanwhile, `work` runs again on the new one.
/// False: every try failed.
pub(crate) fn update<T: SharedValue>(
    host: &impl Control,
    key: &str,
    work: &mut dyn FnMut(&mut T),
) -> bool {
    compare_and_set_shared(host, key, &mut |text| {
        let before: T = parse(text);
        let mut after = before.clone();
        work(&mut after);
        (after != before).then(|| to_text(&after).into_bytes())
    })
}
