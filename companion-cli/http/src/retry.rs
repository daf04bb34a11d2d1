//! Retries of temporary errors, for a limited time.

use std::time::{Duration, SystemTime};

/// Errors that say whether a retry can help.
pub trait Retryable {
    /// Whether the same attempt may succeed a moment later.
    fn is_retryable(&self) -> bool;

    /// The pause that the server asks for.
    fn retry_after(&self) -> Option<Duration> {
        None
    }
}

/// How often, and after which pauses, a request is repeated.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// The number of attempts after the first.
    pub further: u32,
    /// The pause before the second attempt; it doubles before each further one.
    pub pause: Duration,
    /// The longest pause. If the server asks for a longer one, the error is returned instead.
    pub longest_pause: Duration,
}

/// Runs `attempt` until it succeeds, fails permanently, or the attempts are used up. Each attempt
/// starts from the beginning.
pub fn with_retries<T, E: Retryable>(
    policy: RetryPolicy,
    mut attempt: impl FnMut() -> Result<T, E>,
    on_retry: impl Fn(&E, Duration),
) -> Result<T, E> {
    let mut pause = policy.pause;
    for _ in 0..policy.further {
        let error = match attempt() {
            Err(error) if error.is_retryable() => error,
            result => return result,
        };
        let wait = error.retry_after().unwrap_or(pause);
        if wait > policy.longest_pause {
            return Err(error);
        }
        on_retry(&error, wait);
        std::thread::sleep(wait);
        pause = (pause * 2).min(policy.longest_pause);
    }
    attempt()
}

/// Parses `Retry-After`: seconds, or a date.
pub fn after(header: &str, now: SystemTime) -> Option<Duration> {
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
    fn both_forms_of_retry_after_are_parsed() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let after = |header| after(header, now).map(|wait| wait.as_secs());
        assert_eq!(after("7"), Some(7));
        assert_eq!(after("Sun, 06 Nov 1994 08:50:00 GMT"), Some(23));
        assert_eq!(after("Sun, 06 Nov 1994 08:00:00 GMT"), Some(0));
        assert_eq!(after("soon"), None);
        assert_eq!(after("-1"), None);
    }
}
