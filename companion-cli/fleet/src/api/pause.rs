//! The pause before a request is sent again. The API server names it in its answer or in the header
//! `Retry-After`, which kube does not pass on.

use std::cell::Cell;
use std::time::{Duration, SystemTime};

use http::Response;
use http::header::RETRY_AFTER;

use laststream_http::retry;

tokio::task_local! {
    /// The `Retry-After` of the last answer to a request of this task.
    static HEADER: Cell<Option<Duration>>;
}

/// The factor for the pauses after a 429 without a named pause: they are 1 s and 2 s.
const BUSY: u32 = 4;
/// The longest pause that a server can ask for; a longer one is cut to this.
const LONGEST: Duration = Duration::from_secs(5);

/// Sends a request; the second value is the `Retry-After` of the answer.
pub(crate) async fn with_header<T>(request: impl Future<Output = T>) -> (T, Option<Duration>) {
    let request = async { (request.await, HEADER.with(Cell::get)) };
    HEADER.scope(Cell::new(None), request).await
}

/// A layer of the client that stores the `Retry-After` of each answer.
pub(crate) fn keep_header<B>(answer: Response<B>) -> Response<B> {
    let header = answer.headers().get(RETRY_AFTER).and_then(|header| header.to_str().ok());
    let pause = header.and_then(|header| retry::after(header, SystemTime::now()));
    // Fails for a request that is not repeated, because it runs outside of `with_header`.
    let _ = HEADER.try_with(|last| last.set(pause));
    answer
}

/// The pause that the API server names, else `pause`, which is longer after a 429. `pause` is also
/// the minimum, because a date in `Retry-After` may have passed on this machine's clock.
pub(crate) fn after(error: &kube::Error, header: Option<Duration>, pause: Duration) -> Duration {
    let kube::Error::Api(status) = error else { return pause };
    let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    let delay = (seconds > 0).then(|| Duration::from_secs(seconds.into())).or(header);
    match delay {
        Some(named) => named.clamp(pause, LONGEST),
        None if status.code == 429 => pause * BUSY,
        None => pause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_server_gets_the_pause_that_it_names_or_a_second() {
        const FIRST: Duration = Duration::from_millis(250);
        let of = |code, named: Option<u32>, header: Option<u64>| {
            let mut status = kube::core::Status::failure("later", "").with_code(code);
            let details = serde_json::json!({ "retryAfterSeconds": named });
            status.details = named.map(|_| serde_json::from_value(details).unwrap());
            after(&kube::Error::Api(status.boxed()), header.map(Duration::from_secs), FIRST)
        };
        assert_eq!(of(503, None, None), FIRST);
        assert_eq!(of(429, None, None), Duration::from_secs(1));
        assert_eq!(of(429, Some(3), Some(1)), Duration::from_secs(3));
        assert_eq!(of(503, None, Some(2)), Duration::from_secs(2));
        assert_eq!(of(429, None, Some(0)), FIRST, "a date in the past");
        assert_eq!(of(503, Some(60), None), LONGEST);
    }
}
