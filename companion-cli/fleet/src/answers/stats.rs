//! The module's metrics in a page of Prometheus text.

use std::collections::BTreeMap;
use std::fmt;

use laststream_filter::gate::Phase;
use strum::VariantArray as _;

use laststream_gate::counts_all;

/// The module's metrics in a proxy's statistics.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// The gate's state; `None` without a gate.
    pub state: Option<&'static str>,
    /// The word for the count; `None` before the gate's first evaluation.
    pub count: Option<String>,
    /// Streams in flight by scope.
    pub in_flight: BTreeMap<String, u64>,
    /// Streams in flight that are long-lived.
    pub long_lived: u64,
    /// The duration of the drain, in seconds.
    pub drain_seconds: u64,
    /// The deadline of a drain, in seconds from its beginning; `None` without a gate.
    pub deadline_seconds: Option<u64>,
    /// Streams that hold the drain.
    pub holding: Option<u64>,
    /// Why the gate itself could not be asked, if it was tried.
    pub gate_error: Option<String>,
    /// Why the statistics do not come from the agent's port, if they do not.
    pub detour: Option<Detour>,
    /// The programs whose metrics are in the page.
    pub(crate) sources: Sources,
}

/// Why the statistics do not come from the agent's port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detour {
    /// The agent serves them to its own pod only.
    LocalOnly,
    /// The agent serves its own metrics and the app's, without Envoy's.
    NotMerged,
}

impl fmt::Display for Detour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LocalOnly => {
                "its agent's statistics are for its own pod only (METRICS_LOCALHOST_ACCESS_ONLY)"
            }
            Self::NotMerged => {
                "its agent's statistics lack Envoy's (PILOT_AGENT_MERGE_ENVOY_STATS=false?)"
            }
        })
    }
}

/// The programs whose metrics are in a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sources {
    envoy: bool,
    agent: bool,
}

impl Sources {
    fn note(&mut self, line: &str) {
        self.envoy |= line.starts_with(ENVOY) || line.starts_with(PREFIX);
        self.agent |= line.starts_with(AGENT);
    }
}

/// The size limit of a page. Istio's agent returns all statistics, several megabytes in large
/// meshes.
const LONGEST_PAGE: usize = 64 << 20;
/// The size limit of the module's lines in a page. The module has a few dozen series for each
/// scope.
const LONGEST_SHARE: usize = 1 << 20;
/// The length limit of a line. The module's lines are shorter, so the rest of a longer line is
/// ignored.
const LONGEST_LINE: usize = 16 << 10;

/// Reads a page as it arrives, and keeps only the module's metrics.
#[derive(Debug, Default)]
pub(crate) struct PageReader {
    stats: Stats,
    line: Vec<u8>,
    all: usize,
    share: usize,
}

impl PageReader {
    /// # Errors
    /// The bytes are not a page of statistics, or there are too many of them.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.all += bytes.len();
        if self.all > LONGEST_PAGE {
            return Err(format!("more than {} MiB of statistics", LONGEST_PAGE >> 20));
        }
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + part.len() <= LONGEST_LINE {
                self.line.extend_from_slice(part);
            } else {
                self.line.resize(LONGEST_LINE, b'#'); // the rest is ignored
            }
            if part.ends_with(b"\n") {
                self.end_line()?;
            }
        }
        Ok(())
    }

    /// # Errors
    /// The bytes are not a page of statistics, or there are too many of them.
    pub(crate) fn finish(mut self) -> Result<Stats, String> {
        self.end_line()?;
        Ok(self.stats)
    }

    fn end_line(&mut self) -> Result<(), String> {
        let line = std::mem::take(&mut self.line);
        if line.trim_ascii_start().starts_with(b"<") {
            return Err(
                "HTML instead of statistics: is this the port with Envoy's statistics?".to_owned()
            );
        }
        let text = String::from_utf8_lossy(&line);
        self.stats.sources.note(&text);
        if let Some((name, value)) = text.strip_prefix(PREFIX).and_then(sample) {
            self.share += line.len();
            if self.share > LONGEST_SHARE {
                return Err(format!("more than {} KiB of its metrics", LONGEST_SHARE >> 10));
            }
            self.stats.note(name, value);
        }
        Ok(())
    }
}

const PREFIX: &str = "laststream_";
const ENVOY: &str = "envoy_";
const AGENT: &str = "istio_agent_";

impl Stats {
    /// Whether the page is one of Istio's agent, without Envoy's statistics.
    pub(crate) fn are_of_the_agent_alone(&self) -> bool {
        self.sources.agent && !self.sources.envoy
    }

    /// Whether the proxy has a counter.
    #[must_use]
    pub fn counts(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Streams in flight in all scopes.
    #[must_use]
    pub fn total(&self) -> u64 {
        total(&self.in_flight)
    }

    /// The gate's word for the count, if the count does not have all streams, or has too many.
    #[must_use]
    pub fn inexact(&self) -> Option<&str> {
        self.count.as_deref().filter(|count| !counts_all(count))
    }

    /// Why the gate itself could not be asked; `None` without a gate, and if no request to it
    /// failed.
    #[must_use]
    pub fn why_unasked(&self) -> Option<String> {
        let why = self.gate_error.as_ref().filter(|_| self.state.is_some())?;
        Some(format!("its gate cannot be asked: {why}"))
    }

    fn note(&mut self, name: &str, value: u64) {
        if let Some(scope) = name.strip_prefix("streams_in_flight_") {
            *self.in_flight.entry(scope.to_owned()).or_default() += value;
        } else if name.starts_with("streams_long_lived_") {
            self.long_lived += value;
        } else if let Some(word) = name.strip_prefix("gate_count_") {
            if value == 1 {
                self.count = Some(word.to_owned());
            }
        } else {
            match name {
                "gate_state" => self.state = Some(state(value)),
                "gate_drain_seconds" => self.drain_seconds = value,
                "gate_deadline_seconds" if value > 0 => self.deadline_seconds = Some(value),
                "gate_holding" => self.holding = Some(value),
                _ => {}
            }
        }
    }
}

/// The name of the state that has this number in the metric.
fn state(number: u64) -> &'static str {
    let phase = usize::try_from(number).ok().and_then(|index| Phase::VARIANTS.get(index));
    phase.map_or("unknown", Into::into)
}

/// Streams of all scopes. The sum saturates, because the answer may come from another program than
/// a gate.
pub(crate) fn total(in_flight: &BTreeMap<String, u64>) -> u64 {
    in_flight.values().fold(0, |sum, count| count.saturating_add(sum))
}

/// The largest value that is read. No proxy has more of anything, and sums over a fleet stay far
/// below the limit of their type.
const MOST: u64 = 1 << 40;

/// The name and the value of `name{labels} value`; Envoy's gauges are integers.
fn sample(line: &str) -> Option<(&str, u64)> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let rest =
        rest.strip_prefix('{').map_or(Some(rest), |labels| Some(labels.split_once('}')?.1))?;
    let value = rest.split_whitespace().next()?;
    Some((name, value.parse::<u64>().ok()?.min(MOST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Stats {
        /// A page in one piece.
        pub(crate) fn read(page: &str) -> Self {
            let mut reader = PageReader::default();
            reader.read(page.as_bytes()).unwrap();
            reader.finish().unwrap()
        }
    }

    #[test]
    fn a_page_may_come_in_any_pieces() {
        let page = "envoy_x{} 1\nlaststream_gate_state{} 1\nlaststream_gate_holding{} 2";
        for size in 1..page.len() {
            let mut reader = PageReader::default();
            page.as_bytes().chunks(size).for_each(|piece| reader.read(piece).unwrap());
            assert_eq!(reader.finish().unwrap(), Stats::read(page), "{size}");
        }
    }

    #[test]
    fn an_invalid_page_is_refused_and_takes_no_memory() {
        let html = |text: &str| {
            let mut reader = PageReader::default();
            reader.read(text.as_bytes()).and_then(|()| reader.finish())
        };
        assert!(html("<html>").is_err_and(|why| why.contains("HTML")));
        assert!(html("\n <!doctype html>\n").is_err_and(|why| why.contains("HTML")));
        let endless = |piece: &[u8]| {
            let mut reader = PageReader::default();
            let refused = (0..1000).find_map(|_| reader.read(piece).err());
            assert!(reader.line.capacity() <= 4 * LONGEST_LINE, "{}", reader.line.capacity());
            refused.unwrap_or_default()
        };
        assert!(endless(&vec![b'x'; 1 << 20]).contains("64 MiB"));
        assert!(endless("envoy_x{} 1\n".repeat(100_000).as_bytes()).contains("64 MiB"));
        let own = "laststream_streams_in_flight_x{} 1\n".repeat(10_000);
        assert!(endless(own.as_bytes()).contains("KiB of its metrics"));
    }

    #[test]
    fn the_module_s_metrics_are_found_among_others() {
        let page = "# TYPE laststream_gate_state gauge\nlaststream_gate_state{} 1\n\
            laststream_gate_count_exact{} 1\nlaststream_gate_count_asking{} 0\n\
            laststream_gate_drain_seconds{} 12\nenvoy_x{} 3\n\
            laststream_streams_in_flight_inbound{} 2\n\
            laststream_streams_in_flight_outbound{app=\"a b\"} 3 1700000000000\n\
            laststream_streams_long_lived_inbound{} 1\n";
        let stats = Stats::read(page);
        assert_eq!((stats.state, stats.count.as_deref()), (Some("draining"), Some("exact")));
        let in_flight: Vec<_> = stats.in_flight.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        assert_eq!(in_flight, [("inbound", 2), ("outbound", 3)]);
        assert_eq!((stats.long_lived, stats.drain_seconds), (1, 12));
    }

    #[test]
    fn a_page_of_istio_s_agent_may_lack_envoy_s_statistics() {
        const AGENT: &str = "# TYPE istio_agent_pilot_xds_send_time histogram\n\
            istio_agent_scrapes_total 3\n";
        for (page, alone) in [
            (AGENT.to_owned(), true),
            (format!("{AGENT}envoy_server_live{{}} 1\n"), false),
            (format!("{AGENT}laststream_gate_state{{}} 0\n"), false),
            ("app_requests 1\n".to_owned(), false),
        ] {
            assert_eq!(Stats::read(&page).are_of_the_agent_alone(), alone, "{page}");
        }
    }

    #[test]
    fn a_state_is_the_module_s_word_for_its_number() {
        for phase in Phase::VARIANTS {
            let page = format!("laststream_gate_state{{}} {}\n", *phase as u64);
            assert_eq!(Stats::read(&page).state, Some(phase.to_string().as_str()));
        }
    }

    #[test]
    fn malformed_metrics_are_ignored() {
        for page in [
            "",
            "laststream_",
            "laststream_gate_state",
            "laststream_gate_state{ 1",
            "laststream_gate_state{} -1",
            "laststream_gate_state{} NaN",
            "laststream_{}{} 1",
        ] {
            let sources = Sources { envoy: !page.is_empty(), agent: false };
            assert_eq!(Stats::read(page), Stats { sources, ..Stats::default() }, "{page}");
        }
        assert_eq!(Stats::read("laststream_gate_state{} 99").state, Some("unknown"));
        let huge = format!("laststream_streams_in_flight_a{{}} {}\n", u64::MAX).repeat(3);
        assert_eq!(Stats::read(&huge).in_flight.get("a"), Some(&(3 * MOST)), "no overflow");
    }
}
