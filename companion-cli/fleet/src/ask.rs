//! Asks one pod: its statistics through the API server's proxy, its gate through a port-forward.

use std::pin::Pin;
use std::time::Duration;

use http::{Method, Request};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::Portforwarder;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use super::call::Call;
use super::client::Cluster;
use super::error::FleetError;
use super::pods::PodFacts;
use super::stats::{PageReader, Stats};
use laststream_base::causes::with_sources;
use laststream_base::visible::brief;
use laststream_gate::{DrainCommand, Outcome, Response, Status, Streams};

/// The time limit for a pod's answer, so that a silent pod does not delay the others.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time limit for kubelet's reason after a connection has ended.
const MOMENT: Duration = Duration::from_millis(100);
/// The size limit for the body of an error response, which is a sentence.
const LONGEST_REFUSAL: usize = 64 << 10;
/// The size limit for a gate's answer. A hundred streams with long paths take less than half of it.
const LONGEST: usize = 4 << 20;
/// Envoy's admin interface applies the filter; Istio's agent returns all statistics.
const PATH: &str = "stats/prometheus?filter=laststream_";

/// The answers of a pod's gate.
#[derive(Debug, Clone)]
pub struct Detail {
    /// The answer to `GET /status`.
    pub status: Status,
    /// The streams that hold the drain, or why the gate does not list them.
    pub streams: Result<Streams, String>,
}

impl Cluster {
    /// The statistics of a pod's proxy.
    ///
    /// # Errors
    /// The pod does not answer, or a right is missing.
    pub async fn stats(&self, pod: &PodFacts) -> Result<Stats, FleetError> {
        let call = of_pod("get", "pods/proxy", pod);
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}:{}/proxy/{PATH}",
            pod.namespace, pod.name, pod.stats_port
        );
        let request = Request::get(path).body(Vec::new());
        let request = request.map_err(|error| FleetError::Other(error.to_string()))?;
        let answer = self.once(&call, page(self.client(), request));
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(stats) => stats?.map_err(FleetError::Other),
            Err(_) => Err(FleetError::Other(silence(pod.stats_port))),
        }
    }

    /// Asks a pod's gate for its status, and for its streams if any hold the drain or are in
    /// flight.
    ///
    /// # Errors
    /// The gate cannot be asked, or a right is missing.
    pub async fn detail(&self, pod: &PodFacts, limit: u32) -> Result<Detail, FleetError> {
        let call = of_pod("get", "pods/portforward", pod);
        let ask = self.detail_through(&call, pod, limit);
        match tokio::time::timeout(PATIENCE, ask).await {
            Ok(detail) => detail,
            Err(_) => Err(FleetError::Other(silence(pod.gate_port))),
        }
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
        let call = of_pod("get", "pods/portforward", pod);
        let mut is_sent = false;
        let send = async {
            let mut gate = self.reach(&call, pod).await?;
            is_sent = true;
            let response = gate.send(command.method(), &command.path()).await?;
            let answer = command.read(response);
            answer.map_err(|error| FleetError::Other(format!("the gate answers, but {error}")))
        };
        let answer = tokio::time::timeout(PATIENCE, send).await;
        match answer {
            Ok(answer) => Ok(answer?.body),
            Err(_) if is_sent => Err(FleetError::Other(unanswered(pod))),
            Err(_) => Err(FleetError::Other(silence(pod.gate_port))),
        }
    }

    async fn detail_through(
        &self,
        call: &Call,
        pod: &PodFacts,
        limit: u32,
    ) -> Result<Detail, FleetError> {
        let mut gate = self.reach(call, pod).await?;
        let status: Status = gate.get("/status").await?;
        if status.holding == 0 && status.in_flight() == 0 {
            let (state, complete) = (status.state.clone(), status.counts_all());
            let streams = Streams { state, holding: 0, complete, streams: Vec::new() };
            return Ok(Detail { status, streams: Ok(streams) });
        }
        let path = format!("/streams?limit={limit}");
        let mut streams = gate.get(&path).await;
        // An Envoy that drains closes each connection after its answer.
        if streams.is_err() && gate.sender.is_closed() {
            streams = self.reach(call, pod).await?.get(&path).await;
        }
        Ok(Detail { status, streams: streams.map_err(|error| brief(&error.to_string())) })
    }

    async fn reach(&self, call: &Call, pod: &PodFacts) -> Result<Reached, FleetError> {
        let pods: Api<Pod> = Api::namespaced(self.client(), &pod.namespace);
        let mut forward = self.once(call, pods.portforward(&pod.name, &[pod.gate_port])).await?;
        let refused = forward.take_error(pod.gate_port);
        let refused = refused.map(|refused| -> Refusal { Box::pin(refused) });
        let stream = forward.take_stream(pod.gate_port);
        let stream = stream.ok_or_else(|| FleetError::Other("no port is forwarded".to_owned()))?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) =
            handshake.map_err(|error| FleetError::Other(with_sources(&error)))?;
        let connection = tokio::spawn(async move {
            let _ = connection.await; // the sender reports its end
        });
        Ok(Reached { forward, refused, sender, connection })
    }
}

/// Reads the statistics as they arrive, because a pod may send more than fits into memory.
async fn page(
    client: kube::Client,
    request: Request<Vec<u8>>,
) -> Result<Result<Stats, String>, kube::Error> {
    let response = client.send(request.map(kube::client::Body::from)).await?;
    let status = response.status();
    let mut body = response.into_body();
    if !status.is_success() {
        let body = Limited::new(body, LONGEST_REFUSAL).collect().await;
        let text = body.map(|body| body.to_bytes()).unwrap_or_default();
        return Err(refusal(status.as_u16(), &String::from_utf8_lossy(&text)));
    }
    let mut reader = PageReader::default();
    while let Some(frame) = body.frame().await {
        if let Some(bytes) = frame?.data_ref()
            && let Err(why) = reader.read(bytes)
        {
            return Ok(Err(why));
        }
    }
    Ok(reader.finish())
}

/// The error of a failed request. The body is the API server's own `Status`, or comes from a pod
/// behind its proxy; the two look alike.
fn refusal(code: u16, text: &str) -> kube::Error {
    let status: kube::core::Status = serde_json::from_str(text)
        .unwrap_or_else(|_| kube::core::Status::failure(text, "not a Status"));
    let message = brief(&status.message);
    kube::Error::Api(Box::new(kube::core::Status { code, message, ..status }))
}

type Refusal = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

/// A connection to the gate through a port-forward.
struct Reached {
    forward: Portforwarder,
    /// kubelet's error for the port, for example that no program listens on it.
    refused: Option<Refusal>,
    sender: SendRequest<Empty<Bytes>>,
    connection: JoinHandle<()>,
}

impl Drop for Reached {
    fn drop(&mut self) {
        self.connection.abort();
        self.forward.abort();
    }
}

impl Reached {
    async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, FleetError> {
        let response = self.send(Method::GET, path).await?;
        if !(200..300).contains(&response.status) {
            let status = response.status;
            return Err(FleetError::Other(format!("status {status} from the gate's port")));
        }
        serde_json::from_str(&response.body)
            .map_err(|_| FleetError::Other("what answers there is no gate".to_owned()))
    }

    async fn send(&mut self, method: Method, path: &str) -> Result<Response, FleetError> {
        match exchange(&mut self.sender, method, path).await {
            Ok(Response { status: 403, body }) => Err(FleetError::Other(why_refused(&body))),
            Ok(response) => Ok(response),
            Err(error) => {
                let why = match self.refused.take() {
                    // The connection's own error is only its end; kubelet's error has the reason.
                    Some(refused) => tokio::time::timeout(MOMENT, refused).await.ok().flatten(),
                    None => None,
                };
                let why = why.map(|why| format!(": {}", why.trim())).unwrap_or_default();
                Err(FleetError::Other(format!("{error}{why}")))
            }
        }
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

fn of_pod(verb: &'static str, resource: &'static str, pod: &PodFacts) -> Call {
    Call::new(verb, resource).within(&pod.namespace).named(&pod.name)
}

fn silence(port: u16) -> String {
    format!("port {port} does not answer within {} s", PATIENCE.as_secs())
}

/// A gate that is late may have done what it was asked.
fn unanswered(pod: &PodFacts) -> String {
    format!(
        "the command was sent, and no answer came within {} s: `laststream status {} -n {}` says \
         whether the gate has obeyed",
        PATIENCE.as_secs(),
        pod.name,
        pod.namespace
    )
}

async fn exchange(
    sender: &mut SendRequest<Empty<Bytes>>,
    method: Method,
    path: &str,
) -> Result<Response, String> {
    let request = Request::builder().method(method).uri(path).header("host", "127.0.0.1");
    let request = request.body(Empty::new()).map_err(|error| error.to_string())?;
    let gone =
        |error: hyper::Error| format!("the gate's connection ended: {}", with_sources(&error));
    sender.ready().await.map_err(gone)?;
    let response = sender.send_request(request).await.map_err(gone)?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), LONGEST).collect().await;
    let body = body.map_err(|error| format!("the gate's answer broke off: {error}"))?.to_bytes();
    Ok(Response { status, body: String::from_utf8_lossy(&body).into_owned() })
}
