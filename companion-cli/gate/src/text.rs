//! The gate's answers as text.

use std::fmt::Write as _;

use super::bodies::{Ends, Outcome, Scope, Status, Stream, Streams};
use laststream_base::visible;

/// The whole status, with a line for each value.
pub fn status(status: &Status) -> String {
    let mut text = format!("{}\n", headline(&status.state, &status.reason));
    for (name, value) in counts(status).into_iter().chain(course(status)) {
        let _ = writeln!(text, "  {name:<9} {value}"); // cannot fail for a String
    }
    text
}

/// The lines with the streams in flight, and how far their count can be believed.
fn counts(status: &Status) -> Vec<(String, String)> {
    let mut lines: Vec<(String, String)> =
        status.scopes.iter().map(|scope| (plain(&scope.scope), of_scope(scope))).collect();
    let mut line = |name: &str, value: String| lines.push((name.to_owned(), value));
    let lost_counters = if_any(status.lost_counters, format!(", {} lost", status.lost_counters));
    line(
        "count",
        format!("{}, {}{lost_counters}", plain(&status.count), many(status.counters, "counter")),
    );
    for more in [&status.late_counters, &status.advice].into_iter().flatten() {
        line("", plain(more));
    }
    if let Some(active) = status.envoy_active {
        line("envoy", format!("{} by its own count", many(active, "request")));
    }
    if let Some(connections) = status.connections {
        line("tcp", many(connections, "connection"));
    }
    if let Some(bytes) = status.buffered_bytes {
        line("buffered", format!("{} for clients", many(bytes, "byte")));
    }
    lines
}

/// The lines with the course of the drain, and the gate's actions.
fn course(status: &Status) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let mut line = |name: &str, value: String| lines.push((name.to_owned(), value));
    if status.state == "draining" {
        line("quiet", format!("{} of {} ms", status.quiet_ms, status.quiet_needed_ms));
    }
    if status.begin.is_some() || status.finish.is_some() {
        line("drain", drain(status));
    }
    if let Some(ends) = &status.ends {
        line("ends", of_ends(ends));
    }
    if status.evictions > 0 {
        line("ended", many(status.evictions, "stream"));
    }
    if status.sealed {
        const SEALED: &str =
            "the signal to end was sent: new streams are refused until the process ends";
        line("sealed", SEALED.into());
    }
    line("signals", format!("{} refused", status.refused));
    if status.heals > 0 {
        line("heals", many(status.heals, "leaked count"));
    }
    line("module", plain(&status.version));
    lines
}

fn of_ends(ends: &Ends) -> String {
    let begin = ends.begins_in_ms.map(|wait| format!("from {} on, ", seconds(wait)));
    let streams = ends.left.map_or_else(|| "streams".to_owned(), |left| many(left, "stream"));
    let begin = begin.unwrap_or_default();
    let kinds = plain(&ends.kinds.join(", "));
    format!("{begin}{streams} ({kinds}) within {}", seconds(ends.ends_in_ms))
}

fn of_scope(scope: &Scope) -> String {
    let long_lived = if_any(scope.long_lived, format!(", {} of them long-lived", scope.long_lived));
    format!("{} in flight{long_lived}; {} begun in all", scope.in_flight, scope.begun)
}

fn drain(status: &Status) -> String {
    let mut text = format!("for {}", seconds(status.draining_ms));
    if let Some(millis) = status.deadline_in_ms {
        let _ = write!(text, ", deadline in {}", seconds(millis)); // cannot fail for a String
    }
    let _ = write!(text, ", {} late", many(status.late, "stream"));
    for (name, step) in
        [("begin", &status.begin), ("notify", &status.notify), ("finish", &status.finish)]
    {
        if let Some(step) = step {
            let _ = write!(text, ", {name} {}", plain(step));
        }
    }
    text
}

pub fn line(status: &Status) -> String {
    let mut text = headline(&status.state, &status.reason);
    text.push_str(&after_semicolon(hold(&status.state, status.holding)));
    if let Some(millis) = status.deadline_in_ms {
        let _ = write!(text, "; deadline in {}", seconds(millis)); // cannot fail for a String
    }
    text
}

/// The outcome of a request in one line.
pub fn outcome(outcome: &Outcome) -> String {
    let holding = hold(&outcome.state, outcome.holding.unwrap_or_default());
    headline(&outcome.state, &outcome.reason) + &after_semicolon(holding)
}

/// The state and the streams that hold the drain, without the reason, which contains numbers that
/// change all the time.
pub fn held(state: &str, holding: u64) -> String {
    let holding_text =
        hold(state, holding).unwrap_or_else(|| "no stream holds the drain".to_owned());
    format!("{}: {holding_text}", plain(state))
}

/// The state and its reason. A gate that was forced open begins its reason with the state, too.
fn headline(state: &str, reason: &str) -> String {
    let detail = reason.strip_prefix(state).and_then(|rest| rest.strip_prefix(": "));
    format!("{}: {}", plain(state), plain(detail.unwrap_or(reason)))
}

/// The text for a gate whose own count does not have all of its streams.
pub fn uncounted(count: &str) -> String {
    format!("the gate's count is `{}`", plain(count))
}

/// The streams as a table without empty columns.
pub fn streams(streams: &Streams) -> String {
    let mut text = format!("{}\n", held(&streams.state, streams.holding));
    if !streams.streams.is_empty() {
        text.push_str(&stream_columns(Vec::new(), &streams.streams, |stream| stream));
    }
    for of_cluster in &streams.clusters {
        let requests = many(of_cluster.requests, "request");
        text.push_str(&format!("{requests} to {}\n", plain(&of_cluster.cluster)));
    }
    if !streams.complete {
        text.push_str(
            "There may be more: not all are listed, or not all counters have answered.\n",
        );
    }
    text
}

/// The most streams that are named in one line.
pub const MOST_NAMED: u32 = 3;

/// The oldest of so many streams in one line: `GET /export, 412 s, route r, from 10.1.2.3; and 1
/// more`. Empty if none is listed.
pub fn oldest(streams: &[Stream], count: u64) -> String {
    let words: Vec<String> =
        (0..MOST_NAMED).zip(streams).map(|(_, stream)| of_stream(stream)).collect();
    if words.is_empty() {
        return String::new();
    }
    let more = count.saturating_sub(u64::try_from(words.len()).unwrap_or(u64::MAX));
    words.join("; ") + &if_any(more, format!("; and {more} more"))
}

fn of_stream(stream: &Stream) -> String {
    let call = match (&stream.request, &stream.protocol) {
        (Some(request), _) => request.clone(),
        (None, Some(protocol)) => format!("{protocol} {}", stream.scope),
        (None, None) => stream.scope.clone(),
    };
    let mut parts = vec![plain(&call), format!("{} s", stream.age_ms / 1000)];
    if stream.long_lived {
        parts.push("long-lived".to_owned());
    }
    for (name, value) in
        [("route", &stream.route), ("from", &stream.peer), ("to", &stream.upstream)]
    {
        if let Some(value) = value {
            parts.push(format!("{name} {}", plain(value)));
        }
    }
    parts.join(", ")
}

/// The title of a column, and its cells.
pub type Column<T> = (&'static str, fn(&T) -> String);

const COLUMNS: [Column<Stream>; 13] = [
    ("AGE", |stream| seconds(stream.age_ms)),
    ("SCOPE", |stream| stream.scope.clone()),
    ("STATUS", |stream| stream.status.map(|status| status.to_string()).unwrap_or_default()),
    ("BYTES", |stream| stream.bytes.to_string()),
    ("LIVES", |stream| if stream.long_lived { "long".into() } else { String::new() }),
    ("KIND", kind),
    ("ENDING", |stream| if stream.ending { "yes".into() } else { String::new() }),
    ("PROTOCOL", |stream| stream.protocol.clone().unwrap_or_default()),
    ("PEER", |stream| stream.peer.clone().unwrap_or_default()),
    ("UPSTREAM", |stream| stream.upstream.clone().unwrap_or_default()),
    ("ROUTE", |stream| stream.route.clone().unwrap_or_default()),
    ("CLUSTER", |stream| stream.cluster.clone().unwrap_or_default()),
    ("REQUEST", |stream| stream.request.clone().unwrap_or_default()),
];

/// The kind, which counters keep only for a policy with `end`. Without it the status shows one.
fn kind(stream: &Stream) -> String {
    match (&stream.kind, stream.status) {
        (Some(kind), _) => kind.clone(),
        (None, Some(101)) => "upgrade".into(),
        (None, _) => String::new(),
    }
}

/// A table of streams, with the caller's columns before theirs.
pub fn stream_columns<T>(first: Vec<Column<T>>, items: &[T], stream: fn(&T) -> &Stream) -> String {
    let first = first.into_iter().map(|(title, value)| (title, items.iter().map(value).collect()));
    let values = COLUMNS
        .into_iter()
        .map(|(title, value)| (title, items.iter().map(|item| value(stream(item))).collect()));
    columns(first.chain(values).collect())
}

/// A table without empty columns; every cell stays on its line.
pub fn columns(columns: Vec<(&str, Vec<String>)>) -> String {
    let height = columns.iter().map(|(_, cells)| cells.len()).max().unwrap_or_default();
    let mut rows = vec![String::new(); height + 1];
    for (title, cells) in columns {
        let cells: Vec<String> = cells.iter().map(|cell| plain(cell)).collect();
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
            let _ = write!(row, "{cell:<width$}  "); // cannot fail for a String
        }
    }
    rows.iter().map(|row| format!("{}\n", row.trim_end())).collect()
}

fn seconds(millis: u64) -> String {
    format!("{}.{} s", millis / 1000, millis % 1000 / 100)
}

/// What the streams that the drain waits for do in this state. `None` if there are none.
fn hold(state: &str, count: u64) -> Option<String> {
    let streams = many(count, "stream");
    Some(match (state, count) {
        (_, 0) => return None,
        ("serving", _) => format!("{streams} would hold a drain"),
        ("expired" | "forced", 1) => "1 stream is in flight, and is cut when Envoy stops".into(),
        ("expired" | "forced", _) => {
            format!("{streams} are in flight, and are cut when Envoy stops")
        }
        (_, 1) => "1 stream holds the drain".into(),
        (_, _) => format!("{streams} hold the drain"),
    })
}

fn after_semicolon(part: Option<String>) -> String {
    part.map(|part| format!("; {part}")).unwrap_or_default()
}

/// A number with its noun.
pub fn many(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The text, unless the number is zero.
pub fn if_any(number: u64, text: String) -> String {
    if number == 0 { String::new() } else { text }
}

/// A text on one line and with a limited length, because clients choose paths and names.
pub fn plain(text: &str) -> String {
    visible::cut_line(text, LONGEST)
}

/// The length limit of a text. The gate cuts the texts that clients choose at 512 bytes, so a
/// longer text is not from a gate.
const LONGEST: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(text: &str) -> Stream {
        serde_json::from_str(text).expect("a stream")
    }

    #[test]
    fn a_table_drops_empty_columns_and_escapes_control_characters() {
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
                        "status": 101}"#,
                ),
            ],
            clusters: Vec::new(),
        };
        assert_eq!(
            streams(&all),
            "draining: 3 streams hold the drain\n\
             AGE     SCOPE    STATUS  BYTES  LIVES  KIND     REQUEST\n\
             61.2 s  gateway  -       0      -      -        GET /a\\u{1b}[2J\\n/b\n\
             0.0 s   inbound  101     18233  long   upgrade  -\n\
             There may be more: not all are listed, or not all counters have answered.\n"
        );
        assert_eq!(held("draining", 0), "draining: no stream holds the drain");
    }

    #[test]
    fn the_ends_and_the_call_to_the_app_are_shown() {
        let shown = |ends: &str| {
            let text = format!(
                r#"{{"state": "draining", "reason": "1 stream is in flight", "count": "exact",
                "holding": 1, "scopes": [], "begin": "done", "notify": "under way",
                "ends": {ends}}}"#
            );
            status(&serde_json::from_str(&text).expect("a status"))
        };
        let text = shown(r#"{"kinds": ["websocket", "grpc"], "left": 40, "ends_in_ms": 15500}"#);
        assert!(
            text.contains("  ends      40 streams (websocket, grpc) within 15.5 s\n"),
            "{text}"
        );
        assert!(text.contains(", begin done, notify under way\n"), "{text}");
        let text = shown(r#"{"kinds": ["grpc"], "begins_in_ms": 33000, "ends_in_ms": 53000}"#);
        assert!(
            text.contains("ends      from 33.0 s on, streams (grpc) within 53.0 s\n"),
            "{text}"
        );
    }
}
