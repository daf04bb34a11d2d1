//! The total number of requests by Envoy's own count: the newest that the gate of any worker has
//! got. All of them use this one number, because a difference between two workers' answers would
//! look like a request that has begun.

use crate::host::{Control, compare_and_set_shared};
use crate::parse;

/// The shared data key: when Envoy was queried, and the number.
const KEY: &str = "laststream.requests";

/// Zero as long as no gate has needed it.
pub(super) fn newest(host: &impl Control) -> u64 {
    host.get_shared_data(KEY).and_then(|(text, _)| read(&text)).map_or(0, |[_, total]| total)
}

/// `at`: when the query began.
pub(super) fn publish(host: &impl Control, at: u64, total: u64) {
    compare_and_set_shared(host, KEY, &mut |text| {
        let is_newer = text.and_then(read).is_none_or(|[last, _]| at >= last);
        is_newer.then(|| format!("{at} {total}").into_bytes())
    });
}

fn read(text: &[u8]) -> Option<[u64; 2]> {
    parse::numbers(&mut core::str::from_utf8(text).ok()?.split(' '))
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{newest, publish};
    use crate::fake::Fake;

    #[wasm_bindgen_test(unsupported = test)]
    fn an_older_answer_does_not_replace_a_newer_one() {
        let host = Fake::default();
        assert_eq!(newest(&host), 0);
        for (at, total, expected) in [(100, 7, 7), (200, 9, 9), (150, 8, 9), (300, 4, 4)] {
            publish(&host, at, total);
            assert_eq!(newest(&host), expected, "a connection manager may have gone");
        }
    }
}
