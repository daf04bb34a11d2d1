//! Trying again: only what can end well a moment later, and never for long.

use std::time::{Duration, SystemTime};

use super::Registry;
use super::error::Error;

impl Registry<'_> {
    /// Runs it until it ends well, cannot end well, or has been tried often enough. Each try begins from nothing.
    pub(super) fn again<T>(&self, mut attempt: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        let limits = &self.options.limits;
        let mut pause = limits.pause;
        for _ in 0..self.options.retries {
            let error = match attempt() {
                Err(error) if error.is_passing() => error,
                result => return result,
            };
            let wait = error.retry_after().unwrap_or(pause);
            if wait > limits.longest_pause {
                return Err(error);
            }
            self.progress.started(&format!("{error}; trying again in {} s", wait.as_secs_f32()));
            std::thread::sleep(wait);
            pause = (pause * 2).min(limits.longest_pause);
        }
        attempt()
    }
}

/// `Retry-After`: seconds, or a date.
pub(super) fn after(header: &str, now: SystemTime) -> Option<Duration> {
    let header = header.trim();
    header.parse().ok().map(Duration::from_secs).or_else(|| {
        let until = httpdate::parse_http_date(header).ok()?;
        Some(until.duration_since(now).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_retry_after() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let after = |header| after(header, now).map(|wait| wait.as_secs());
        assert_eq!(after("7"), Some(7));
        assert_eq!(after("Sun, 06 Nov 1994 08:50:00 GMT"), Some(23));
        assert_eq!(after("Sun, 06 Nov 1994 08:00:00 GMT"), Some(0));
        assert_eq!(after("soon"), None);
        assert_eq!(after("-1"), None);
    }
}
