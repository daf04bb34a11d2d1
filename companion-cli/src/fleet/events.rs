//! Kubernetes Events on pods whose drain is held or expired: one for each state of a pod, not one
//! for each look.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;

use super::ask::Detail;
use super::call::Call;
use super::client::Cluster;
use super::error::FleetError;
use super::pod_report::Answer;
use super::pods::PodFacts;
use super::table::held;

/// The time for which a drain must be held before an Event is written. Every rollout has some
/// shorter holds.
const HELD_AFTER_MS: u64 = 10_000;
/// The length limit of a message. The API server refuses longer ones.
const LONGEST: usize = 1000;

/// The reason for an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Streams have held the drain for a while.
    Held,
    /// The deadline came before the last stream had ended.
    Expired,
}

impl Reason {
    /// The value of the Event's field `reason`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Held => "DrainHeld",
            Self::Expired => "DrainExpired",
        }
    }

    /// The reason for an Event about a gate's answer; `None` if it causes no Event.
    #[must_use]
    pub fn of(detail: &Detail) -> Option<Self> {
        let status = &detail.status;
        let has_streams = match status.held_streams() {
            Some(streams) => streams > 0,
            // Without a known count, the drain does not end before its deadline.
            None => status.count != "asking",
        };
        let is_held =
            status.state == "draining" && has_streams && status.draining_ms >= HELD_AFTER_MS;
        match status.state.as_str() {
            "expired" => Some(Self::Expired),
            _ => is_held.then_some(Self::Held),
        }
    }
}

/// Writes Events, and remembers them, so that each is written once.
#[derive(Debug, Default)]
pub struct Events {
    written: BTreeSet<String>,
    has_failed: bool,
}

impl Events {
    /// Writes the Events for these answers. After a refusal, the rest of that namespace is skipped.
    ///
    /// # Errors
    /// The API server refused an Event for the first time; later refusals are not reported. The
    /// next call tries again.
    pub async fn note_all(
        &mut self,
        cluster: &Cluster,
        pods: &[(PodFacts, Answer)],
    ) -> Result<(), FleetError> {
        let mut refusal = None;
        let mut refusing = BTreeSet::new();
        for (pod, answer) in pods {
            if refusing.contains(&pod.namespace) {
                continue;
            }
            let Err(error) = self.note(cluster, pod, answer).await else { continue };
            let is_final = error.is_final();
            // 422: only this Event is invalid, for example because the pod has a very long name.
            if !matches!(error, FleetError::Api { status: 422, .. }) {
                refusing.insert(&pod.namespace);
            }
            refusal.get_or_insert(error);
            if is_final {
                break;
            }
        }
        match refusal {
            Some(error) if !std::mem::replace(&mut self.has_failed, true) => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes the Event for this answer, if it has not been written. The Event's name is made of
    /// the pod's name, its UID and the reason, so that two instances of this program write one
    /// Event.
    async fn note(
        &mut self,
        cluster: &Cluster,
        pod: &PodFacts,
        answer: &Answer,
    ) -> Result<(), FleetError> {
        let Answer::Detail(detail) = answer else { return Ok(()) };
        let Some(reason) = Reason::of(detail) else { return Ok(()) };
        let held = held(&without_queries(detail), 3);
        let event = event(pod, reason, &held, Timestamp::now());
        let name = event.metadata.name.clone().unwrap_or_default();
        if self.written.contains(&name) {
            return Ok(());
        }
        let call = Call::new("create", "events").within(&pod.namespace);
        let events: Api<Event> = Api::namespaced(cluster.client(), &pod.namespace);
        let params = PostParams::default();
        match cluster.repeat(&call, || events.create(&params, &event)).await {
            Ok(_) | Err(FleetError::Api { status: 409, .. }) => {
                self.written.insert(name);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// Removes the queries from requests, because queries can contain secrets, and more users may read
/// Events than ask a gate.
fn without_queries(detail: &Detail) -> Detail {
    let mut detail = detail.clone();
    let streams = detail.streams.iter_mut().flat_map(|listed| &mut listed.streams);
    for request in streams.filter_map(|stream| stream.request.as_mut()) {
        request.truncate(request.find('?').unwrap_or(request.len()));
    }
    detail
}

fn event(pod: &PodFacts, reason: Reason, held: &str, now: Timestamp) -> Event {
    let uid: String = pod.uid.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
    let name = format!("{}.{uid}.{}", pod.name, reason.word().to_lowercase());
    let what = match reason {
        Reason::Held => "the gate holds the drain: ",
        Reason::Expired => "the deadline came before the last stream had ended: ",
    };
    let message: String = what.chars().chain(held.chars()).take(LONGEST).collect();
    Event {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(pod.namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(pod.name.clone()),
            namespace: Some(pod.namespace.clone()),
            uid: Some(pod.uid.clone()),
            ..ObjectReference::default()
        },
        reason: Some(reason.word().to_owned()),
        message: Some(message),
        type_: Some("Warning".to_owned()),
        source: Some(EventSource { component: Some("laststream".to_owned()), host: None }),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::old_pods::tests::{detail, of_partial};

    #[test]
    fn a_short_hold_causes_no_event() {
        for (state, holding, millis, expected) in [
            ("draining", 1, 9_999, None),
            ("draining", 1, 10_000, Some(Reason::Held)),
            ("draining", 0, 60_000, None),
            ("drained", 0, 60_000, None),
            ("serving", 3, 60_000, None),
            ("expired", 1, 60_000, Some(Reason::Expired)),
        ] {
            assert_eq!(Reason::of(&detail(state, holding, millis)), expected, "{state}");
        }
    }

    #[test]
    fn streams_that_only_envoy_counts_hold_a_drain() {
        for (active, expected) in
            [(Some(40), Some(Reason::Held)), (Some(0), None), (None, Some(Reason::Held))]
        {
            assert_eq!(Reason::of(&of_partial("draining", active)), expected, "{active:?}");
        }
    }

    #[test]
    fn queries_stay_out_of_events() {
        let mut detail = detail("draining", 1, 20_000);
        let streams = r#"{"state": "draining", "holding": 1, "streams": [
            {"scope": "inbound", "age_ms": 1000, "request": "GET /a?token=secret"}]}"#;
        detail.streams = Ok(serde_json::from_str(streams).unwrap());
        assert_eq!(held(&without_queries(&detail), 3), "holding 1: GET /a, 1 s");
    }

    #[test]
    fn an_event_is_named_for_its_pod_and_reason() {
        let pod = PodFacts { name: "a".into(), uid: "1-2".into(), ..PodFacts::default() };
        let name = |reason| event(&pod, reason, "", Timestamp::UNIX_EPOCH).metadata.name;
        assert_eq!(name(Reason::Held).as_deref(), Some("a.12.drainheld"));
        assert_ne!(name(Reason::Held), name(Reason::Expired));
    }
}
