//! The parser of the gate's requests: from method and path to a command. Pure.

use laststream_drain::requests::{Command, Hold, Signal};
use laststream_drain::state::Millis;

use crate::parse::{digits, printable_line};

/// The error of an invalid request, by its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestError {
    /// 404: there is no such path.
    Path,
    /// 405, with the allowed methods.
    Method(&'static str),
    /// 400, with the reason.
    Query(&'static str),
}

/// The most streams in one listing, because each costs a dozen reads.
const MOST_STREAMS: usize = 100;

/// Longer than any valid path.
const LONGEST_PATH: usize = 4_096;

/// Whether stop hooks send this command. `pilot-agent wait` sends no headers of its own, so a hook
/// may have the secret in the URL.
pub(super) fn is_of_hook(command: &Command) -> bool {
    matches!(command, Command::PreStop(_) | Command::Drain)
}

/// Whether the command changes something, or lists streams.
pub(super) fn needs_access(command: &Command) -> bool {
    !matches!(command, Command::Status(_) | Command::Ready(_))
}

/// Parses a request. HEAD is GET without the body.
///
/// # Errors
/// The reason why the request is invalid.
pub fn parse_command(method: &str, path: &str) -> Result<Command, RequestError> {
    if path.len() > LONGEST_PATH {
        return Err(RequestError::Path);
    }
    let (plain, query) = path.split_once('?').unwrap_or((path, ""));
    let allow = match plain {
        "/status" | "/streams" | "/ready" => "GET, HEAD",
        "/prestop" => "GET, HEAD, POST",
        "/drain" => "POST, DELETE",
        "/force" | "/quitquitquit" | "/drain_listeners" => "POST",
        _ => return Err(RequestError::Path),
    };
    if !allow.split(',').any(|allowed| allowed.trim_start() == method) {
        return Err(RequestError::Method(allow));
    }
    check_secret_in_query(method, plain, query)?;
    command_of(method, path, plain, query)
}

fn check_secret_in_query(method: &str, plain: &str, query: &str) -> Result<(), RequestError> {
    // The secret must not reach Envoy's admin interface, nor a log if the client can send a header
    // instead.
    if parameter(query, "secret").is_some()
        && !matches!((method, plain), (_, "/prestop") | ("POST", "/drain"))
    {
        return Err(RequestError::Query(
            "only /prestop and POST /drain take `secret` in the URL: send the header \
             x-laststream-secret",
        ));
    }
    Ok(())
}

/// The command of a request whose path and method are valid.
fn command_of(method: &str, path: &str, plain: &str, query: &str) -> Result<Command, RequestError> {
    Ok(match plain {
        "/status" => Command::Status(parse_patience(query)?),
        "/streams" => Command::Streams { limit: parse_limit(query)?, wait: parse_patience(query)? },
        "/ready" => Command::Ready(parse_patience(query)?),
        "/prestop" => Command::PreStop(parse_hold(query)?),
        "/drain" if method == "DELETE" => Command::Cancel,
        "/drain" => Command::Drain,
        "/force" => match parameter(query, "reason").map(decoded_line) {
            Some(reason) if !reason.trim_ascii().is_empty() => Command::Force(reason),
            _ => return Err(RequestError::Query("say why: POST /force?reason=…")),
        },
        "/quitquitquit" => Command::Signal(Signal::Quit(path.into())),
        _ if parameter(query, "graceful").is_some() => {
            Command::GracefulSignal(Signal::DrainListeners(path.into()))
        }
        _ => Command::Signal(Signal::DrainListeners(path.into())),
    })
}

/// `wait=30s`, `wait=500ms`, `wait=30`; `wait` alone holds until the gate is open.
fn parse_hold(query: &str) -> Result<Hold, RequestError> {
    const HELP: RequestError = RequestError::Query(
        "`wait` is a time such as 30s or 500ms, or nothing at all to hold until the gate is open",
    );
    match parameter(query, "wait") {
        None => Ok(Hold::No),
        Some("") => Ok(Hold::UntilOpen),
        Some(time) => match parse_time(time).ok_or(HELP)? {
            Millis(0) => Ok(Hold::No),
            time => Ok(Hold::AtMost(time)),
        },
    }
}

/// The time for which the client waits for late counts.
fn parse_patience(query: &str) -> Result<Option<Millis>, RequestError> {
    parameter(query, "wait")
        .map(|time| {
            parse_time(time).ok_or(RequestError::Query("`wait` is a time such as 4s or 500ms"))
        })
        .transpose()
}

/// A time in milliseconds: `500ms`, `30s`, `30`, `2m`, `1h`.
fn parse_time(time: &str) -> Option<Millis> {
    let digits = time.find(|character: char| !character.is_ascii_digit()).unwrap_or(time.len());
    let (number, unit) = time.split_at(digits);
    let milliseconds = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.parse().ok().and_then(|number: u64| number.checked_mul(milliseconds)).map(Millis)
}

fn parse_limit(query: &str) -> Result<usize, RequestError> {
    parameter(query, "limit").map_or(Ok(20), |limit| {
        digits(limit.as_bytes())
            .filter(|limit| (1..=MOST_STREAMS).contains(limit))
            .ok_or(RequestError::Query("`limit` is a number from 1 to 100"))
    })
}

fn parameter<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

pub(super) fn secret_in_query(path: &[u8]) -> Option<Vec<u8>> {
    let (_, query) = core::str::from_utf8(path).ok()?.split_once('?')?;
    parameter(query, "secret").map(percent_decoded)
}

/// The decoded text as one printable line.
fn decoded_line(text: &str) -> String {
    printable_line(&percent_decoded(text), 200)
}

/// The text with percent-encoded bytes and plus signs decoded.
fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut ahead = rest.clone();
                match (ahead.next().and_then(digit), ahead.next().and_then(digit)) {
                    (Some(high), Some(low)) => {
                        rest = ahead;
                        high * 16 + low
                    }
                    _ => b'%',
                }
            }
            other => other,
        });
    }
    bytes
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Compares in a time that does not reveal how much of the given secret is right.
pub fn same_secret(given: &[u8], secret: &[u8]) -> bool {
    let difference = given.iter().zip(secret).fold(0, |sum, (one, other)| sum | (one ^ other));
    given.len() == secret.len() && core::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Command, Hold, Millis, RequestError, Signal, parse_command, same_secret};

    #[wasm_bindgen_test(unsupported = test)]
    fn parses_valid_requests() {
        for (method, path, expected) in [
            ("GET", "/status", Command::Status(None)),
            ("GET", "/status?wait=4s", Command::Status(Some(Millis(4_000)))),
            ("HEAD", "/ready?x=1", Command::Ready(None)),
            ("GET", "/ready?wait=4s", Command::Ready(Some(Millis(4_000)))),
            ("GET", "/streams", Command::Streams { limit: 20, wait: None }),
            (
                "GET",
                "/streams?limit=100&wait=0",
                Command::Streams { limit: 100, wait: Some(Millis(0)) },
            ),
            ("GET", "/prestop", Command::PreStop(Hold::No)),
            ("GET", "/prestop?wait=0", Command::PreStop(Hold::No)),
            ("GET", "/prestop?wait", Command::PreStop(Hold::UntilOpen)),
            ("GET", "/prestop?a=b&wait=30s", Command::PreStop(Hold::AtMost(Millis(30_000)))),
            ("POST", "/prestop?wait=500ms", Command::PreStop(Hold::AtMost(Millis(500)))),
            ("GET", "/prestop?wait=2m", Command::PreStop(Hold::AtMost(Millis(120_000)))),
            ("POST", "/drain", Command::Drain),
            ("DELETE", "/drain", Command::Cancel),
            ("POST", "/force?reason=a+b%20%e2%82%ac%zz%0a", Command::Force("a b €%zz ".into())),
            ("POST", "/quitquitquit", Command::Signal(Signal::Quit("/quitquitquit".into()))),
            (
                "POST",
                "/drain_listeners?inboundonly",
                Command::Signal(Signal::DrainListeners("/drain_listeners?inboundonly".into())),
            ),
            (
                "POST",
                "/drain_listeners?graceful&skip_exit",
                Command::GracefulSignal(Signal::DrainListeners(
                    "/drain_listeners?graceful&skip_exit".into(),
                )),
            ),
        ] {
            assert_eq!(parse_command(method, path), Ok(expected), "{method} {path}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn rejects_invalid_requests() {
        assert_eq!(parse_command("GET", "/"), Err(RequestError::Path));
        assert_eq!(parse_command("GET", &"/status".repeat(1_000)), Err(RequestError::Path));
        assert_eq!(parse_command("GET", "/config_dump"), Err(RequestError::Path));
        for (method, path, allow) in [
            ("POST", "/status", "GET, HEAD"),
            ("POST", "/streams", "GET, HEAD"),
            ("GET", "/drain", "POST, DELETE"),
            ("GET", "/quitquitquit", "POST"),
            ("GET", "/drain_listeners?inboundonly", "POST"),
            ("GET", "/force?reason=x", "POST"),
            ("PUT", "/prestop", "GET, HEAD, POST"),
        ] {
            assert_eq!(
                parse_command(method, path),
                Err(RequestError::Method(allow)),
                "{method} {path}"
            );
        }
        for (method, path) in [
            ("POST", "/force"),
            ("POST", "/force?reason=+"),
            ("GET", "/prestop?wait=-1"),
            ("GET", "/prestop?wait=1d"),
            ("GET", "/status?wait"),
            ("GET", "/streams?wait=x"),
            ("GET", "/ready?wait=x"),
            ("GET", "/streams?limit=0"),
            ("GET", "/streams?limit=101"),
            ("GET", "/streams?limit="),
            ("GET", "/prestop?wait=99999999999999999999"),
            ("GET", "/status?secret=x"),
            ("GET", "/streams?limit=1&secret"),
            ("DELETE", "/drain?secret=x"),
            ("POST", "/force?reason=x&secret=x"),
            ("POST", "/drain_listeners?graceful&secret=x"),
        ] {
            assert!(
                matches!(parse_command(method, path), Err(RequestError::Query(_))),
                "{method} {path}"
            );
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn compares_secrets() {
        assert!(same_secret(b"open sesame", b"open sesame"));
        for wrong in [&b""[..], b"open", b"open sesamf", b"open sesame "] {
            assert!(!same_secret(wrong, b"open sesame"));
        }
    }
}
