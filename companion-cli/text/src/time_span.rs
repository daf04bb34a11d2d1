//! Times as Go, Kubernetes, Envoy and Istio write them: `60s`, `500ms`, `1m30s`, `1.5h`. The only
//! place that reads them.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::Duration;

#[cfg(feature = "formats")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer};

/// A length of time in whole milliseconds, a day at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct TimeSpan(u64);

const LONGEST: u64 = 24 * 60 * 60 * 1000;
const WANTED: &str = "a time with its unit, such as `60s`, `500ms` or `1m30s`, a day at most";

impl TimeSpan {
    #[must_use]
    pub const fn seconds(seconds: u64) -> Self {
        Self(seconds * 1000)
    }

    #[must_use]
    pub const fn of_millis(millis: u64) -> Self {
        Self(millis)
    }

    #[must_use]
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// The time in seconds, rounded up.
    #[must_use]
    pub const fn whole_seconds(self) -> u64 {
        self.0.div_ceil(1000)
    }

    /// The time, rounded up to the next whole second.
    #[must_use]
    pub const fn rounded_up(self) -> Self {
        Self::seconds(self.whole_seconds())
    }

    /// The time as the type of the standard library.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

/// Parses a duration of any length, as manifests hold it, into whole milliseconds. A number without
/// a unit means seconds, as for `sleep`.
pub fn milliseconds(text: &str) -> Option<u64> {
    let text = text.trim();
    let duration = parse(text).or_else(|| parse(&format!("{text}s")))?;
    u64::try_from(duration.as_millis()).ok()
}

/// Whether this is a time with its unit.
pub fn is_time(text: &str) -> bool {
    parse(text).is_some()
}

/// A duration as Go reads it, without a sign.
pub fn go_duration(text: &str) -> Option<Duration> {
    with_units(text, b".hmnsu")
}

fn parse(text: &str) -> Option<Duration> {
    with_units(text, b".hms")
}

/// humantime also reads spaces, words, days and months (`2M`). Go does not, and a file that is
/// accepted here must be accepted there. With these letters only the units `h`, `m`, `s`, `ms`,
/// `us` and `ns` can be written.
fn with_units(text: &str, letters: &[u8]) -> Option<Duration> {
    let has_unit = text.ends_with(['s', 'm', 'h']);
    let is_go =
        has_unit && text.bytes().all(|byte| byte.is_ascii_digit() || letters.contains(&byte));
    is_go.then(|| humantime::parse_duration(text).ok()).flatten()
}

impl Add for TimeSpan {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Saturates at zero.
impl Sub for TimeSpan {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1000) {
            write!(f, "{}s", self.0 / 1000)
        } else {
            write!(f, "{}ms", self.0)
        }
    }
}

impl FromStr for TimeSpan {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_whole = |duration: &Duration| duration.subsec_nanos().is_multiple_of(1_000_000);
        let millis = parse(text)
            .filter(is_whole)
            .and_then(|duration| u64::try_from(duration.as_millis()).ok());
        millis.filter(|millis| *millis <= LONGEST).map(Self).ok_or(WANTED)
    }
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(|wanted| D::Error::invalid_value(Unexpected::Str(&text), &wanted))
    }
}

#[cfg(feature = "formats")]
impl JsonSchema for TimeSpan {
    fn schema_name() -> Cow<'static, str> {
        "TimeSpan".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$";
        json_schema!({ "type": "string", "description": "A length of time with its \
            unit.", "pattern": pattern })
    }
}

#[cfg(test)]
mod tests {
    use super::{TimeSpan, milliseconds};

    const BOTH: [(&str, u64); 9] = [
        ("60s", 60_000),
        ("500ms", 500),
        ("2m", 120_000),
        ("1h", 3_600_000),
        ("0s", 0),
        ("24h", 86_400_000),
        ("1.5s", 1_500),
        ("1.5h", 5_400_000),
        ("1m30s", 90_000),
    ];

    #[test]
    fn policies_and_manifests_read_the_same_times() {
        for (text, millis) in BOTH {
            assert_eq!(text.parse::<TimeSpan>().map(TimeSpan::millis), Ok(millis), "{text}");
            assert_eq!(milliseconds(text), Some(millis), "{text}");
        }
    }

    #[test]
    fn times_that_go_rejects_are_rejected() {
        for text in [
            "",
            "s",
            "-1s",
            "1 s",
            "10 s",
            "1S",
            "never",
            "2M",
            "1d",
            "2 weeks",
            "99999999999999999999s",
            "1_000s",
            "1s ago",
            "1..5s",
        ] {
            assert!(text.parse::<TimeSpan>().is_err(), "{text}");
            assert_eq!(milliseconds(text), None, "{text}");
        }
    }

    #[test]
    fn a_policy_requires_a_unit_whole_milliseconds_and_a_day_at_most() {
        for text in ["60", "0", "25h", "0.5ms", "18446744073709551615h"] {
            assert!(text.parse::<TimeSpan>().is_err(), "{text}");
        }
        assert_eq!(milliseconds("30"), Some(30_000));
        assert_eq!(milliseconds(" 72h"), Some(259_200_000));
    }

    #[test]
    fn times_are_written_as_they_are_read() {
        assert_eq!(TimeSpan::seconds(63).to_string(), "63s");
        assert_eq!("1500ms".parse::<TimeSpan>().expect("a time").to_string(), "1500ms");
    }
}
