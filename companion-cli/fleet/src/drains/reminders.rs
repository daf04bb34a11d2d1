//! Limits of commands that follow: when a line is repeated, and how long the API server may be
//! silent.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::api::error::FleetError;

const REMIND: Duration = Duration::from_secs(30);

/// The last line about each subject, and when it was printed.
#[derive(Debug, Default)]
pub(crate) struct Reminders(BTreeMap<String, (String, Instant)>);

impl Reminders {
    /// Whether a line is new, or old enough to be a reminder. If so, it counts as printed now.
    pub(crate) fn is_due(&mut self, subject: &str, key: &str, now: Instant) -> bool {
        let is_due = self
            .0
            .get(subject)
            .is_none_or(|(last, at)| last != key || now.duration_since(*at) >= REMIND);
        if is_due {
            self.0.insert(subject.to_owned(), (key.to_owned(), now));
        }
        is_due
    }
}

/// Whether the API server may answer again, this long after its last answer.
pub(crate) fn may_answer_again(error: &FleetError, silent: Duration) -> bool {
    error.may_pass() && silent < REMIND
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_line_is_printed_when_it_is_new_and_every_30_s() {
        let (mut reminders, begin) = (Reminders::default(), Instant::now());
        let mut is_due = |subject: &str, key: &str, after: u32| {
            reminders.is_due(subject, key, begin + SECOND * after)
        };
        assert!(is_due("pod/a", "1 stream", 0));
        assert!(!is_due("pod/a", "1 stream", 29));
        assert!(is_due("pod/a", "1 stream", 30), "a reminder");
        assert!(!is_due("pod/a", "1 stream", 59), "30 s after the reminder");
        assert!(is_due("pod/b", "1 stream", 59), "another pod");
        assert!(is_due("pod/a", "2 streams", 59), "another line");
        assert!(is_due("pod/a", "1 stream", 59), "what was said before the last line");
    }

    #[test]
    fn the_api_server_may_be_away_for_30_s() {
        let away = FleetError::Unreachable { server: "https://a".into(), why: "refused".into() };
        assert!(may_answer_again(&away, SECOND * 29));
        assert!(!may_answer_again(&away, SECOND * 30));
        let wrong = FleetError::Unauthorized("https://a".into());
        assert!(!may_answer_again(&wrong, Duration::ZERO), "credentials do not heal");
    }
}
