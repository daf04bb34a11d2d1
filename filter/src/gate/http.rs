//! What may be asked of the gate: from method and path to a command.

/// A request that makes sense.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// Reads a request. HEAD is GET without the body.
///
/// # Errors
/// What is wrong with it.
pub fn command(method: &str, path: &str) -> Result<Command, Wrong> {
    if path.len() > LONGEST {
        return Err(Wrong::Path);
    }
    let (plain, query) = path.split_once('?').unwrap_or((path, ""));
    let get = matches!(method, "GET" | "HEAD");
    let only = |fits: bool, allow: &'static str, command: Command| if fits { Ok(command) } else { Err(Wrong::Method(allow)) };
    match plain {
        "/status" => only(get, "GET, HEAD", Command::Status),
        "/streams" if get => Ok(Command::Streams(limit(query)?)),
        "/streams" => Err(Wrong::Method("GET, HEAD")),
        "/ready" => only(get, "GET, HEAD", Command::Ready),
        "/prestop" if get || method == "POST" => Ok(Command::PreStop(hold(query)?)),
        "/prestop" => Err(Wrong::Method("GET, HEAD, POST")),
        "/drain" if method == "DELETE" => Ok(Command::Cancel),
        "/drain" => only(method == "POST", "POST, DELETE", Command::Drain),
        "/force" if method == "POST" => match parameter(query, "reason").map(decoded) {
            Some(reason) if !reason.trim_ascii().is_empty() => Ok(Command::Force(reason)),
            _ => Err(Wrong::Query("say why: POST /force?reason=…")),
        },
        "/force" => Err(Wrong::Method("POST")),
        "/quitquitquit" => only(method == "POST", "POST", Command::Pass { path: path.into(), gracefully: false }),
        "/drain_listeners" => {
            let gracefully = parameter(query, "graceful").is_some();
            only(method == "POST", "POST", Command::Pass { path: path.into(), gracefully })
        }
        _ => Err(Wrong::Path),
    }
}

/// `wait=30s`, `wait=500ms`, `wait=30`; `wait` alone holds until the gate is open.
fn hold(query: &str) -> Result<u64, Wrong> {
    const HELP: Wrong = Wrong::Query("`wait` is a time such as 30s or 500ms, or nothing at all to hold until the gate is open");
    match parameter(query, "wait") {
        None => Ok(0),
        Some("") => Ok(UNTIL_OPEN),
        Some(time) => {
            let unit = time.trim_start_matches(|character: char| character.is_ascii_digit());
            let number: u64 = time.strip_suffix(unit).and_then(|digits| digits.parse().ok()).ok_or(HELP)?;
            match unit {
                "ms" => Ok(number),
                "" | "s" => number.checked_mul(1_000).ok_or(HELP),
                "m" => number.checked_mul(60_000).ok_or(HELP),
                _ => Err(HELP),
            }
        }
    }
}

fn limit(query: &str) -> Result<usize, Wrong> {
    parameter(query, "limit").map_or(Ok(20), |limit| {
        limit.parse().ok().filter(|limit| (1..=MOST).contains(limit)).ok_or(Wrong::Query("`limit` is a number from 1 to 100"))
    })
}

fn parameter<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, ""))).find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// Percent signs and plus signs; what is not UTF-8 then is shown as such. Control characters would break the log's line.
fn decoded(text: &str) -> String {
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
    let text = String::from_utf8_lossy(&bytes);
    text.chars().map(|character| if character.is_ascii_control() { ' ' } else { character }).take(200).collect()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Compares without telling by its time how much of it was right.
pub fn same_secret(given: &[u8], secret: &[u8]) -> bool {
    let difference = given.iter().zip(secret).fold(0, |sum, (one, other)| sum | (one ^ other));
    given.len() == secret.len() && std::hint::black_box(difference) == 0
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
            ("POST", "/drain_listeners?inboundonly", Command::Pass { path: "/drain_listeners?inboundonly".into(), gracefully: false }),
            (
                "POST",
                "/drain_listeners?graceful&skip_exit",
                Command::Pass { path: "/drain_listeners?graceful&skip_exit".into(), gracefully: true },
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
