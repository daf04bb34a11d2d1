//! Events that the API server refuses.

use kit::Outcome;
use kit::fake_server::Answer as Reply;
use laststream::fleet::events::Events;
use laststream::fleet::{Access, Answer, Cluster as Asked, Detail, FleetError, PodFacts, client};
use serde_json::json;

use crate::support::{Cluster, status};

/// A pod whose drain has been held for long.
fn held(namespace: &str, name: &str) -> Outcome<(PodFacts, Answer)> {
    let status = serde_json::from_value(json!({
        "state": "draining", "reason": "r", "count": "exact", "holding": 1, "scopes": [],
        "draining_ms": 60_000,
    }))?;
    let (uid, name) = (format!("{namespace}{name}"), name.to_owned());
    let pod = PodFacts { namespace: namespace.into(), name, uid, ..PodFacts::default() };
    Ok((pod, Answer::Detail(Box::new(Detail { status, streams: Err("none".into()) }))))
}

fn events_of(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/events")
}

/// The results of two looks.
fn look_twice(
    cluster: &Cluster,
    pods: &[(PodFacts, Answer)],
) -> Outcome<[Result<(), FleetError>; 2]> {
    let access = Access { kubeconfig: Some(cluster.kubeconfig()), ..Access::default() };
    client::runtime()?.block_on(async {
        let asked = Asked::connect(&access, &|_| None).await?;
        let mut events = Events::default();
        Ok([events.note_all(&asked, pods).await, events.note_all(&asked, pods).await])
    })
}

fn written() -> Reply {
    status(409, "AlreadyExists", "by another program")
}

#[test]
fn a_namespace_that_refuses_events_stops_no_other() -> Outcome {
    let cluster = Cluster::start(|asked, _| {
        let is_refused = asked.path() == events_of("a");
        Ok(if is_refused { status(403, "Forbidden", "it is being deleted") } else { written() })
    })?;
    let pods = [held("a", "1")?, held("a", "2")?, held("b", "1")?];
    let looks = look_twice(&cluster, &pods)?;
    assert!(matches!(looks, [Err(FleetError::Forbidden(_)), Ok(())]), "{looks:?}");
    assert_eq!(cluster.asked(&events_of("a")), 2, "once in each look");
    assert_eq!(cluster.asked(&events_of("b")), 1);
    Ok(())
}

#[test]
fn an_event_that_is_not_valid_stops_no_other() -> Outcome {
    let cluster = Cluster::start(|_, _| Ok(status(422, "Invalid", "the name is too long")))?;
    let looks = look_twice(&cluster, &[held("a", "1")?, held("a", "2")?])?;
    assert!(matches!(looks, [Err(FleetError::Api { status: 422, .. }), Ok(())]), "{looks:?}");
    assert_eq!(cluster.asked(&events_of("a")), 4, "both, in each look");
    Ok(())
}
