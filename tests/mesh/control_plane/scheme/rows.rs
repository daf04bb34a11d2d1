//! Sends a row through the gateway, and compares the result.

use std::collections::BTreeMap;

use crate::agent::Agent;
use crate::control_plane::stage::Stage;
use kit::forwarded_proto::cells::shown;
use kit::forwarded_proto::client::{Connection, Way, redirected};
use kit::forwarded_proto::listeners::{ROUTE, TLS_ONLY, TO_HTTP1, TO_HTTP2};
use kit::forwarded_proto::table::{Expected, Protocol, Row};
use kit::prelude::*;
use kit::upstream::Received;

/// The saved header. In an Istio gateway the rendered route removes it.
const SAVED: &str = "x-laststream-forwarded-proto";

/// Returns the number of requests, and every deviation from the row.
pub(super) async fn run(
    stage: &Stage,
    agent: &Agent,
    row: &Row,
    protocol: Protocol,
) -> Outcome<(u64, Vec<String>)> {
    let way =
        Way { to: stage.address(), from: row.from.address, protocol, proxied: None, tls: None };
    let mut connection = Connection::open(way).await?;
    let path = format!("/echo/{}/{protocol:?}", row.id);
    let place = |problem: String| format!("{} over {protocol:?} ({}): {problem}", row.id, row.why);
    let before = verdicts(agent).await?;
    stage.upstream.forget();
    let answer = connection.get(TO_HTTP1, &path, &row.request).await;
    let received = stage.upstream.received().into_iter().find(|request| request.path == path);
    let Some(expected) = &row.expected else {
        let refused = received.is_none()
            && answer.as_ref().map_or(true, |answer| (400..500).contains(&answer.status));
        return Ok((
            1,
            if refused { Vec::new() } else { vec![place("should have been refused".into())] },
        ));
    };
    let answer = answer?;
    let Some(received) = received else {
        return Ok((1, vec![place(format!("the gateway answered {} itself", answer.status))]));
    };
    let mut found = compare(expected, &received);
    if answer.headers.get(ROUTE).as_ref() != Some(&expected.route) {
        found.push(format!(
            "route: expected {}, saw {:?}",
            expected.route,
            answer.headers.get(ROUTE)
        ));
    }
    let redirect = redirected(&connection.get(TLS_ONLY, &path, &row.request).await?)?;
    if redirect != expected.redirect {
        found.push(format!("redirect: expected {}, saw {redirect}", expected.redirect));
    }
    let mut requests = 2;
    if let Some(scheme) = &expected.scheme {
        connection.get(TO_HTTP2, &path, &row.request).await?;
        requests += 1;
        let seen = stage.upstream.last()?.scheme.unwrap_or_default();
        if seen.as_bytes() != scheme {
            found.push(format!(":scheme: expected {}, saw {seen}", shown(scheme)));
        }
    }
    let after = verdicts(agent).await?;
    let more: BTreeMap<_, _> = after
        .into_iter()
        .map(|(name, count)| (name.clone(), count - before.get(&name).unwrap_or(&0)))
        .filter(|(_, count)| *count > 0)
        .collect();
    let verdict = verdict_here(expected);
    if more != BTreeMap::from([(verdict.to_owned(), requests)]) {
        found.push(format!("verdicts: expected {requests} × {verdict}, saw {more:?}"));
    }
    Ok((requests, found.into_iter().map(place).collect()))
}

/// Compares the headers at the upstream with the row: exactly these values, or none.
fn compare(expected: &Expected, received: &Received) -> Vec<String> {
    let seen = |name: &str| -> Vec<&[u8]> {
        received
            .headers
            .0
            .iter()
            .filter(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_slice())
            .collect()
    };
    let mut wanted: BTreeMap<&str, Vec<&[u8]>> =
        BTreeMap::from([("x-forwarded-proto", vec![expected.proto.as_slice()])]);
    wanted.insert(SAVED, Vec::new());
    wanted.extend(expected.gone.iter().map(|name| (name.as_str(), Vec::new())));
    for line in expected.kept.iter().filter(|line| line.name != SAVED) {
        wanted.entry(&line.name).or_default().push(&line.value);
    }
    let list = |values: &[&[u8]]| {
        values.iter().map(|value| shown(value)).collect::<Vec<_>>().join(" and ")
    };
    let different = wanted.into_iter().filter(|(name, values)| seen(name) != *values);
    different
        .map(|(name, values)| {
            format!("{name}: expected [{}], saw [{}]", list(&values), list(&seen(name)))
        })
        .collect()
}

/// The verdict of this gateway. The rendered early header mutation removes the peer's header, so
/// the module always finds Envoy's own `http` there.
fn verdict_here(expected: &Expected) -> &str {
    match (expected.verdict.as_str(), expected.proto.as_slice()) {
        ("kept", b"https") => "overridden",
        ("overridden", b"http") => "kept",
        (verdict, _) => verdict,
    }
}

/// How often the module has reached each verdict.
async fn verdicts(agent: &Agent) -> Outcome<BTreeMap<String, u64>> {
    const NAME: (&str, &str) = ("wasmcustom.laststream_forwarded_proto_", "_gateway_total");
    let text =
        agent.admin_get("/stats?filter=laststream_forwarded_proto").await?.expect(200)?.text();
    let count = |line: &str| -> Outcome<(String, u64)> {
        let (name, value) = line.split_once(": ").context("a line of the statistics")?;
        let verdict = name
            .strip_prefix(NAME.0)
            .and_then(|name| name.strip_suffix(NAME.1))
            .context("a verdict")?;
        Ok((verdict.to_owned(), value.parse()?))
    };
    text.lines().map(count).collect()
}
