//! What may be asked of the gate: from method and path to a command.

use crate::parse::{digits, printable_line};

/// A request that makes sense.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Command {
    /// How things are.
    Status,
    /// The oldest streams that hold the drain; how many at most.
    Streams(usize),
    /// Whether one may go.
    Ready,
    /// Begin, and hold for so many milliseconds at most.
    PreStop(u64),
    /// Begin.
    Drain,
    /// Take it back.
    Cancel,
    /// Open the gate; why.
    Force(String),
    /// Pass it to Envoy's admin interface: at zero only, unless Envoy itself acts gracefully.
    Pass {
        /// With its query.
        path: String,
        /// Whether nobody in flight is hurt.
        gracefully: bool,
    },
}

/// A request that does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// 404.
    Path,
    /// 405, with what is allowed.
    Method(&'static str),
    /// 400, with why.
    Query(&'static str),
}

/// Holding as long as the gate is closed.
pub const UNTIL_OPEN: u64 = u64::MAX;

/// Each of these costs a dozen reads.
const MOST: usize = 100;

/// Longer paths than any that make sense are not looked at.
const LONGEST: usize = 4_096;

impl Command {
    /// Whether a stop hook asks this. `pilot-agent wait` sends no headers of its own, so these may
    /// carry the secret in the URL.
    pub(super) fn is_of_a_hook(&self) -> bool {
        matches!(self, Self::PreStop(_) | Self::Drain)
    }
}

/// Reads a request. HEAD is GET without the body.
///
/// # Errors
/// What is wrong with it.
pub fn command(method: &str, path: &str) -> Result<Command, Wrong> {
    if path.len() > LONGEST {
        return Err(Wrong::Path);
    }
    let (plain, query) = path.split_once('?').unwrap_or((path, ""));
    let allow = match plain {
        "/status" | "/streams" | "/ready" => "GET, HEAD",
        "/prestop" => "GET, HEAD, POST",
        "/drain" => "POST, DELETE",
        "/force" | "/quitquitquit" | "/drain_listeners" => "POST",
        _ => return Err(Wrong::Path),
    };
    if !allow.split(',').any(|allowed| allowed.trim_start() == method) {
        return Err(Wrong::Method(allow));
    }
    // Envoy's admin interface must not see it, and where a client can send a header, nothing should
    // log it.
    if parameter(query, "secret").is_some()
        && !matches!((method, plain), (_, "/prestop") | ("POST", "/drain"))
    {
        return Err(Wrong::Query(
            "only /prestop and POST /drain take `secret` in the URL: send the header \
                x-laststream-secret",
        ));
    }
    Ok(match plain {
        "/status" => Command::Status,
        "/streams" => Command::Streams(limit(query)?),
        "/ready" => Command::Ready,
        "/prestop" => Command::PreStop(hold(query)?),
        "/drain" if method == "DELETE" => Command::Cancel,
        "/drain" => Command::Drain,
        "/force" => match parameter(query, "reason").map(decoded) {
            Some(reason) if !reason.trim_ascii().is_empty() => Command::Force(reason),
            _ => return Err(Wrong::Query("say why: POST /force?reason=…")),
        },
        _ => Command::Pass {
            path: path.into(),
            gracefully: plain != "/quitquitquit" && parameter(query, "graceful").is_some(),
        },
    })
}

/// `wait=30s`, `wait=500ms`, `wait=30`; `wait` alone holds until the gate is open.
fn hold(query: &str) -> Result<u64, Wrong> {
    const HELP: Wrong = Wrong::Query(
        "`wait` is a time such as 30s or 500ms, or nothing at all to hold until the gate is open",
    );
    match parameter(query, "wait") {
        None => Ok(0),
        Some("") => Ok(UNTIL_OPEN),
        Some(time) => {
            let (number, unit) = time.split_at(
                time.find(|character: char| !character.is_ascii_digit()).unwrap_or(time.len()),
            );
            let milliseconds = match unit {
                "ms" => 1,
                "" | "s" => 1_000,
                "m" => 60_000,
                _ => return Err(HELP),
            };
            number.parse().ok().and_then(|number: u64| number.checked_mul(milliseconds)).ok_or(HELP)
        }
    }
}

fn limit(query: &str) -> Result<usize, Wrong> {
    parameter(query, "limit").map_or(Ok(20), |limit| {
        digits(limit.as_bytes())
            .filter(|limit| (1..=MOST).contains(limit))
            .ok_or(Wrong::Query("`limit` is a number from 1 to 100"))
    })
}

fn parameter<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

/// The secret in the query of this path.
pub(super) fn secret_in_query(path: &[u8]) -> Option<Vec<u8>> {
    let (_, query) = core::str::from_utf8(path).ok()?.split_once('?')?;
    parameter(query, "secret").map(percent_decoded)
}

/// As one line for people.
fn decoded(text: &str) -> String {
    printable_line(&percent_decoded(text), 200)
}

/// Percent signs and plus signs.
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

/// Compares without telling by its time how much of it was right.
pub fn same_secret(given: &[u8], secret: &[u8]) -> bool {
    let difference = given.iter().zip(secret).fold(0, |sum, (one, other)| sum | (one ^ other));
    given.len() == secret.len() && core::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Command, UNTIL_OPEN, Wrong, command, same_secret};

    #[wasm_bindgen_test(unsupported = test)]
    fn reads_what_makes_sense() {
        for (method, path, expected) in [
            ("GET", "/status", Command::Status),
            ("HEAD", "/ready?x=1", Command::Ready),
            ("GET", "/streams", Command::Streams(20)),
            ("GET", "/streams?limit=100", Command::Streams(100)),
            ("GET", "/prestop", Command::PreStop(0)),
            ("GET", "/prestop?wait", Command::PreStop(UNTIL_OPEN)),
            ("GET", "/prestop?a=b&wait=30s", Command::PreStop(30_000)),
            ("POST", "/prestop?wait=500ms", Command::PreStop(500)),
            ("GET", "/prestop?wait=2m", Command::PreStop(120_000)),
            ("POST", "/drain", Command::Drain),
            ("DELETE", "/drain", Command::Cancel),
            ("POST", "/force?reason=a+b%20%e2%82%ac%zz%0a", Command::Force("a b €%zz ".into())),
            (
                "POST",
                "/drain_listeners?inboundonly",
                Command::Pass { path: "/drain_listeners?inboundonly".into(), gracefully: false },
            ),
            (
                "POST",
                "/drain_listeners?graceful&skip_exit",
                Command::Pass {
                    path: "/drain_listeners?graceful&skip_exit".into(),
                    gracefully: true,
                },
            ),
        ] {
            assert_eq!(command(method, path), Ok(expected), "{method} {path}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn says_what_does_not() {
        assert_eq!(command("GET", "/"), Err(Wrong::Path));
        assert_eq!(command("GET", &"/status".repeat(1_000)), Err(Wrong::Path));
        assert_eq!(command("GET", "/config_dump"), Err(Wrong::Path));
        for (method, path, allow) in [
            ("POST", "/status", "GET, HEAD"),
            ("POST", "/streams", "GET, HEAD"),
            ("GET", "/drain", "POST, DELETE"),
            ("GET", "/quitquitquit", "POST"),
            ("GET", "/force?reason=x", "POST"),
            ("PUT", "/prestop", "GET, HEAD, POST"),
        ] {
            assert_eq!(command(method, path), Err(Wrong::Method(allow)), "{method} {path}");
        }
        for (method, path) in [
            ("POST", "/force"),
            ("POST", "/force?reason=+"),
            ("GET", "/prestop?wait=-1"),
            ("GET", "/prestop?wait=1h"),
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
            assert!(matches!(command(method, path), Err(Wrong::Query(_))), "{method} {path}");
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
