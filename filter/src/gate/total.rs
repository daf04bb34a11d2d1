//! The total number of requests by Envoy's own count: the newest that this gate has got on any
//! worker. All workers use this one number, because a difference between two workers' answers would
//! look like a request that has begun. Each gate has its own, because gates count the requests of
//! different connection managers.

use crate::host::{Control, compare_and_set_shared};
use crate::parse;

/// The number in shared data, with the time of the query.
#[derive(Debug, Clone)]
pub(super) struct SharedTotal {
    key: String,
}

impl SharedTotal {
    /// `record`: the key of the gate's record.
    pub(super) fn of(record: &str) -> Self {
        Self { key: format!("laststream.requests {record}") }
    }

    /// The newest total; zero as long as this gate has not needed it.
    pub(super) fn newest(&self, host: &impl Control) -> u64 {
        let text = host.get_shared_data(&self.key);
        text.and_then(|(text, _)| read(&text)).map_or(0, |[_, total]| total)
    }

    /// Shares a total, unless there is a newer one. `at`: the beginning of the query.
    pub(super) fn publish(&self, host: &impl Control, at: u64, total: u64) {
        compare_and_set_shared(host, &self.key, &mut |text| {
            let is_newer = text.and_then(read).is_none_or(|[last, _]| at >= last);
            is_newer.then(|| format!("{at} {total}").into_bytes())
        });
    }
}

fn read(text: &[u8]) -> Option<[u64; 2]> {
    parse::numbers(&mut core::str::from_utf8(text).ok()?.split(' '))
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::SharedTotal;
    use crate::fake::Fake;

    #[wasm_bindgen_test(unsupported = test)]
    fn an_older_answer_does_not_replace_a_newer_one() {
        let (host, total) = (Fake::default(), SharedTotal::of("laststream.gate.inbound"));
        assert_eq!(total.newest(&host), 0);
        for (at, number, expected) in [(100, 7, 7), (200, 9, 9), (150, 8, 9), (300, 4, 4)] {
            total.publish(&host, at, number);
            assert_eq!(total.newest(&host), expected, "a connection manager may have gone");
        }
        let other = SharedTotal::of("laststream.gate.outbound");
        assert_eq!(other.newest(&host), 0, "another gate counts other requests");
    }
}
