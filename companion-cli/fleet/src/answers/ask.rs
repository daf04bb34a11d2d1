//! Asks a pod's gate, through a port-forward.

use std::time::Duration;

use http::Method;
use http_body_util::{BodyExt as _, Limited};
use serde::de::DeserializeOwned;

use crate::answers::answer::Detail;
use crate::answers::forward::Forward;
use crate::answers::pod_timeout::{answer_of, in_time, silence};
use crate::api::client::Cluster;
use crate::api::error::FleetError;
use crate::pods::facts::PodFacts;
use laststream_base::visible::brief;
use laststream_gate::{
    DrainCommand, Outcome, Response, Status, Streams, status_path, streams_path,
};

/// The size limit for a gate's answer. A hundred streams with long paths take less than half of it.
const LONGEST: usize = 4 << 20;

/// How long a gate waits for counters that are late. Two answers fit into the time of a pod.
const LATE: Duration = Duration::from_secs(2);

impl Cluster {
    /// Asks a pod's gate for its status, and for its streams if any hold the drain or are in
    /// flight.
    ///
    /// # Errors
    /// The gate cannot be asked, or a right is missing.
    pub async fn detail(&self, pod: &PodFacts, limit: u32) -> Result<Detail, FleetError> {
        answer_of(pod.gate_port, self.detail_through(pod, limit)).await
    }

    /// Sends a command to a pod's gate.
    ///
    /// # Errors
    /// The gate cannot be asked or refuses, or a right is missing.
    pub async fn command(
        &self,
        pod: &PodFacts,
        command: &DrainCommand,
    ) -> Result<Outcome, FleetError> {
        let mut is_sent = false;
        let send = async {
            let mut gate = self.forward(pod, pod.gate_port).await?;
            is_sent = true;
            let response = ask(&mut gate, command.method(), &command.path()).await?;
            let answer = command.read(response);
            answer.map_err(|error| FleetError::Gate(format!("the gate answers, but {error}")))
        };
        match in_time(send).await {
            Some(answer) => Ok(answer?.body),
            None if is_sent => Err(FleetError::Gate(unanswered(pod))),
            None => Err(silence(pod.gate_port)),
        }
    }

    async fn detail_through(&self, pod: &PodFacts, limit: u32) -> Result<Detail, FleetError> {
        let mut gate = self.forward(pod, pod.gate_port).await?;
        let status: Status = get(&mut gate, &status_path(LATE)).await?;
        if status.holding == 0 && status.in_flight() == 0 {
            let (state, complete) = (status.state.clone(), status.counts_all());
            let (streams, clusters) = (Vec::new(), Vec::new());
            let streams = Streams { state, holding: 0, complete, streams, clusters };
            return Ok(Detail { status, streams: Ok(streams) });
        }
        let path = streams_path(limit, LATE);
        let mut streams = get(&mut gate, &path).await;
        // An Envoy that drains closes each connection after its answer.
        if streams.is_err() && gate.is_closed() {
            gate = self.forward(pod, pod.gate_port).await?;
            streams = get(&mut gate, &path).await;
        }
        Ok(Detail { status, streams: streams.map_err(|error| brief(&error.to_string())) })
    }
}

async fn get<T: DeserializeOwned>(gate: &mut Forward, path: &str) -> Result<T, FleetError> {
    let response = ask(gate, Method::GET, path).await?;
    if !(200..300).contains(&response.status) {
        let status = response.status;
        return Err(FleetError::Gate(format!("status {status} from the gate's port")));
    }
    serde_json::from_str(&response.body).map_err(|_| {
        FleetError::Gate("the program on this port is not a laststream gate".to_owned())
    })
}

async fn ask(gate: &mut Forward, method: Method, path: &str) -> Result<Response, FleetError> {
    let response = gate.send(method, path).await?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), LONGEST).collect().await;
    let body =
        body.map_err(|error| FleetError::Gate(format!("the gate's answer broke off: {error}")))?;
    let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    match status {
        403 => Err(FleetError::Gate(why_refused(&body))),
        status => Ok(Response { status, body }),
    }
}

const NEEDS_SECRET: &str = "the gate wants its secret, which is not sent through the API server; \
    `kubectl port-forward` reaches the gate, and `--secret-file` has the secret";

/// The reason of a refusal. Istio's agent puts a filter that refuses everything in the place of a
/// module that it could not fetch.
fn why_refused(body: &str) -> String {
    match serde_json::from_str(body) {
        Ok(Outcome { reason, .. }) if reason.contains("secret") => NEEDS_SECRET.to_owned(),
        Ok(Outcome { reason, .. }) => format!("the gate refuses: {}", brief(&reason)),
        Err(_) => "status 403, and a body that is not the gate's: the module may be missing".into(),
    }
}

/// A gate that is late may have done what it was asked.
fn unanswered(pod: &PodFacts) -> String {
    format!(
        "the command was sent, and no answer came in time: `laststream status {} -n {}` says \
         whether the gate has obeyed",
        pod.name, pod.namespace
    )
}
