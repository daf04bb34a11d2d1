//! Repeated measurements: their median, their spread, and their text.

use serde::Serialize;

/// The median of several figures, and the bounds of the middle half: a few are always disturbed.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) middle: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// All three are zero if there are no figures.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        // Round, because no machine is exact enough for more digits.
        let at = |index: usize| {
            sorted.get(index).map(|figure| (figure * 1000.0).round() / 1000.0).unwrap_or_default()
        };
        Self {
            low: at(sorted.len() / 4),
            middle: at(sorted.len() / 2),
            high: at(sorted.len() * 3 / 4),
        }
    }

    /// The differences between `these` and `those`, one by one.
    pub(crate) fn over(these: &[f64], those: &[f64]) -> Self {
        Self::of(these.iter().zip(those).map(|(this, that)| this - that))
    }

    /// The ratios of `these` to `those`, one by one.
    pub(crate) fn times(these: &[f64], those: &[f64]) -> Self {
        Self::of(these.iter().zip(those).map(|(this, that)| this / that))
    }

    /// Half of the distance between the bounds.
    fn around(self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// `12.3 ± 0.1`
    pub(crate) fn with_spread(self, digits: usize) -> String {
        format!("{:.digits$} ± {:.digits$}", self.middle, self.around())
    }

    /// `+12.3k ± 0.1k`
    pub(crate) fn in_thousands(self) -> String {
        format!("{:+.1}k ± {:.1}k", self.middle / 1000.0, self.around() / 1000.0)
    }
}

/// A table in Markdown. ` | ` separates the titles, and figures are aligned right.
pub(crate) fn table(titles: &str, rows: impl Iterator<Item = Vec<String>>) -> String {
    let rows: String = rows.map(|cells| format!("| {} |\n", cells.join(" | "))).collect();
    let rule = "|--:".repeat(titles.matches(" | ").count());
    format!("| {titles} |\n|---{rule}|\n{rows}")
}

/// `12.3k`
pub(crate) fn thousands(figure: f64) -> String {
    format!("{:.1}k", figure / 1000.0)
}
