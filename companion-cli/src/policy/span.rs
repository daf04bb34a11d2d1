//! Lengths of time as people write them: `60s`, `500ms`, `2m`, `1h`.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer};

/// A length of time in milliseconds, a day at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Span(u64);

const LONGEST: u64 = 24 * 60 * 60 * 1000;
const WANTED: &str = "a time with its unit, such as `60s`, `500ms` or `2m`, a day at most";

impl Span {
    /// So many seconds.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Self {
        Self(seconds * 1000)
    }

    /// In milliseconds.
    #[must_use]
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// In seconds, a begun one as a whole one.
    #[must_use]
    pub const fn whole_seconds(self) -> u64 {
        self.0.div_ceil(1000)
    }

    /// Up to the next whole second.
    #[must_use]
    pub const fn rounded_up(self) -> Self {
        Self::seconds(self.whole_seconds())
    }
}

impl Add for Span {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Never below nothing.
impl Sub for Span {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1000) { write!(f, "{}s", self.0 / 1000) } else { write!(f, "{}ms", self.0) }
    }
}

impl FromStr for Span {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.len() - text.trim_start_matches(|character: char| character.is_ascii_digit()).len();
        let (number, unit) = text.split_at(digits);
        let factor = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(WANTED),
        };
        let millis = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
        millis.filter(|millis| *millis <= LONGEST).map(Self).ok_or(WANTED)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(|wanted| D::Error::invalid_value(Unexpected::Str(&text), &wanted))
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "A length of time with its unit.", "pattern": "^[0-9]+(ms|s|m|h)$" })
    }
}

#[cfg(test)]
mod tests {
    use super::Span;

    #[test]
    fn reads_what_people_write() {
        for (text, millis) in [("60s", 60_000), ("500ms", 500), ("2m", 120_000), ("1h", 3_600_000), ("0s", 0), ("24h", 86_400_000)] {
            assert_eq!(text.parse::<Span>().expect(text).millis(), millis);
        }
        for text in ["", "60", "s", "1.5s", "-1s", "1 s", "1S", "25h", "99999999999999999999s", "18446744073709551615h", "1_000s"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
        assert_eq!(Span::seconds(63).to_string(), "63s");
        assert_eq!("1500ms".parse::<Span>().expect("span").to_string(), "1500ms");
    }
}
