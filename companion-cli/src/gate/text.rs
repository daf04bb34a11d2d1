//! The gate's answers as text.

use std::fmt::Write as _;

use super::bodies::{Outcome, Scope, Status, Stream, Streams};
use crate::visible;

/// The whole status, a line for each thing.
#[must_use]
pub fn status(status: &Status) -> String {
    let mut lines = vec![format!("{}: {}", plain(&status.state), plain(&status.reason))];
    let mut line = |name: &str, value: String| lines.push(format!("  {name:<9} {value}"));
    for scope in &status.scopes {
        line(&plain(&scope.scope), of_scope(scope));
    }
    let lost = if status.lost_counters > 0 {
        format!(", {} lost", status.lost_counters)
    } else {
        String::new()
    };
    line("count", format!("{}, {}{lost}", plain(&status.count), many(status.counters, "counter")));
    if let Some(advice) = &status.advice {
        line("", plain(advice));
    }
    if let Some(active) = status.envoy_active {
        line("envoy", format!("{} by its own count", many(active, "request")));
    }
    if let Some(bytes) = status.buffered_bytes {
        line("buffered", format!("{} for clients", many(bytes, "byte")));
    }
    if status.state == "draining" {
        line("quiet", format!("{} of {} ms", status.quiet_ms, status.quiet_needed_ms));
    }
    if status.begin.is_some() || status.finish.is_some() {
        line("drain", drain(status));
    }
    if status.sealed {
        line(
            "sealed",
            "the signal to end was sent: new streams are refused until the process ends".into(),
        );
    }
    line("signals", format!("{} refused", status.refused));
    if status.heals > 0 {
        line("heals", many(status.heals, "leaked count"));
    }
    line("module", plain(&status.version));
    lines.join("\n") + "\n"
}

fn of_scope(scope: &Scope) -> String {
    let long_lived = if scope.long_lived > 0 {
        format!(", {} of them long-lived", scope.long_lived)
    } else {
        String::new()
    };
    format!("{} in flight{long_lived}; {} begun in all", scope.in_flight, scope.begun)
}

fn drain(status: &Status) -> String {
    let mut text = format!("for {}", seconds(status.draining_ms));
    if let Some(left) = status.deadline_in_ms {
        let _ = write!(text, ", deadline in {}", seconds(left)); // a String takes everything
    }
    let _ = write!(text, ", {} late", many(status.late, "stream"));
    for (name, step) in [("begin", &status.begin), ("finish", &status.finish)] {
        if let Some(step) = step {
            let _ = write!(text, ", {name} {}", plain(step));
        }
    }
    text
}

/// The status in one line.
#[must_use]
pub fn line(status: &Status) -> String {
    let mut text =
        format!("{}: {}; {}", plain(&status.state), plain(&status.reason), hold(status.holding));
    if let Some(left) = status.deadline_in_ms {
        let _ = write!(text, "; deadline in {}", seconds(left)); // a String takes everything
    }
    text
}

/// What was done, or why not.
#[must_use]
pub fn outcome(outcome: &Outcome) -> String {
    let holding = outcome.holding.map(|count| format!("; {}", hold(count))).unwrap_or_default();
    format!("{}: {}{holding}", plain(&outcome.state), plain(&outcome.reason))
}

/// Without the numbers that change all the time.
#[must_use]
pub fn held(outcome: &Outcome) -> String {
    format!("{}: {}", plain(&outcome.state), hold(outcome.holding.unwrap_or_default()))
}

/// The streams as a table. Columns with nothing in them are left out.
#[must_use]
pub fn streams(streams: &Streams) -> String {
    let mut text = format!("{}: {}\n", plain(&streams.state), hold(streams.holding));
    if !streams.streams.is_empty() {
        text.push_str(&table(&streams.streams));
    }
    if !streams.complete {
        text.push_str(
            "There may be more: not all are listed, or not all counters have answered.\n",
        );
    }
    text
}

type Column = (&'static str, fn(&Stream) -> String);

const COLUMNS: [Column; 11] = [
    ("AGE", |stream| seconds(stream.age_ms)),
    ("SCOPE", |stream| stream.scope.clone()),
    ("STATUS", |stream| stream.status.map(|status| status.to_string()).unwrap_or_default()),
    ("BYTES", |stream| stream.bytes.to_string()),
    ("LIVES", |stream| if stream.long_lived { "long".into() } else { String::new() }),
    ("PROTOCOL", |stream| stream.protocol.clone().unwrap_or_default()),
    ("PEER", |stream| stream.peer.clone().unwrap_or_default()),
    ("UPSTREAM", |stream| stream.upstream.clone().unwrap_or_default()),
    ("ROUTE", |stream| stream.route.clone().unwrap_or_default()),
    ("CLUSTER", |stream| stream.cluster.clone().unwrap_or_default()),
    ("REQUEST", |stream| stream.request.clone().unwrap_or_default()),
];

fn table(streams: &[Stream]) -> String {
    let mut rows = vec![String::new(); streams.len() + 1];
    for (title, value) in COLUMNS {
        let cells: Vec<String> = streams.iter().map(|stream| plain(&value(stream))).collect();
        if cells.iter().all(String::is_empty) {
            continue;
        }
        let width = cells
            .iter()
            .map(|cell| cell.chars().count())
            .chain([title.len()])
            .max()
            .unwrap_or_default();
        for (row, cell) in
            rows.iter_mut().zip([title].into_iter().chain(cells.iter().map(String::as_str)))
        {
            let cell = if cell.is_empty() { "-" } else { cell };
            let _ = write!(row, "{cell:<width$}  "); // a String takes everything
        }
    }
    rows.iter().map(|row| format!("{}\n", row.trim_end())).collect()
}

fn seconds(millis: u64) -> String {
    format!("{}.{} s", millis / 1000, millis % 1000 / 100)
}

fn hold(count: u64) -> String {
    if count == 1 {
        "1 stream holds the drain".into()
    } else {
        format!("{count} streams hold the drain")
    }
}

fn many(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Clients choose paths and names: each stays on its line.
fn plain(text: &str) -> String {
    visible::line(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(text: &str) -> Stream {
        serde_json::from_str(text).expect("a stream")
    }

    #[test]
    fn a_table_shows_what_there_is_and_steers_no_terminal() {
        let all = Streams {
            state: "draining".into(),
            holding: 3,
            complete: false,
            streams: vec![
                stream(
                    r#"{"scope": "gateway", "age_ms": 61250, "long_lived": false, "bytes": 0,
                        "request": "GET /a\u001b[2J\n/b"}"#,
                ),
                stream(
                    r#"{"scope": "inbound", "age_ms": 9, "long_lived": true, "bytes": 18233,
                        "status": 200}"#,
                ),
            ],
        };
        assert_eq!(
            streams(&all),
            "draining: 3 streams hold the drain\n\
             AGE     SCOPE    STATUS  BYTES  LIVES  REQUEST\n\
             61.2 s  gateway  -       0      -      GET /a\\u{1b}[2J\\n/b\n\
             0.0 s   inbound  200     18233  long   -\n\
             There may be more: not all are listed, or not all counters have answered.\n"
        );
    }
}
