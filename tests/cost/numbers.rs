//! Several looks at the same thing, and how far they are apart.

use serde::{Deserialize, Serialize};

/// The middle of several figures, and between what the middle half of them lies: a few are always disturbed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) middle: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// All zero where there are none.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
        Self { low: at(sorted.len() / 4), middle: at(sorted.len() / 2), high: at(sorted.len() * 3 / 4) }
    }

    /// Half of what these are apart.
    pub(crate) fn around(self) -> f64 {
        (self.high - self.low) / 2.0
    }
}
