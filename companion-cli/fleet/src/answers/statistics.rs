//! Asks a pod's proxy for its statistics: through the API server's proxy, or, where Istio's agent
//! does not serve them there, through a port-forward to Envoy's admin interface.

use std::error::Error;

use http::{Method, Request};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Bytes};

use crate::answers::pod_timeout::answer_of;
use crate::answers::stats::{Detour, PageReader, Stats};
use crate::api::call::Call;
use crate::api::client::Cluster;
use crate::api::error::FleetError;
use crate::pods::facts::PodFacts;
use laststream_base::causes::with_sources;
use laststream_base::visible::brief;

/// The filter lets the module's metrics pass, and one by which Envoy's statistics are known.
const PAGE: &str = "stats/prometheus?filter=laststream_%7Cserver.live";
/// The port of Envoy's admin interface in a pod of Istio, on the loopback interface.
const ADMIN: u16 = 15000;
/// The size limit for the body of an error response, which is a sentence.
const LONGEST_REFUSAL: usize = 64 << 10;

impl Cluster {
    /// The statistics of a pod's proxy.
    ///
    /// # Errors
    /// The pod does not answer, or a right is missing.
    pub async fn stats(&self, pod: &PodFacts) -> Result<Stats, FleetError> {
        let answer = answer_of(pod.stats_port, self.proxied(pod)).await;
        let Some(detour) = detour(&answer) else { return answer };
        match answer_of(ADMIN, self.of_admin(pod)).await {
            Ok(stats) => Ok(Stats { detour: Some(detour), ..stats }),
            Err(error) if error.concerns_all() => Err(error),
            Err(error) => {
                Err(FleetError::Statistics(format!("{detour}, and port {ADMIN}: {error}")))
            }
        }
    }

    async fn proxied(&self, pod: &PodFacts) -> Result<Stats, FleetError> {
        let call = Call::new("get", "pods/proxy").within(&pod.namespace).named(&pod.name);
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}:{}/proxy/{PAGE}",
            pod.namespace, pod.name, pod.stats_port
        );
        let request = Request::get(path).body(Vec::new());
        let request = request.map_err(|error| FleetError::Statistics(error.to_string()))?;
        self.once(&call, page(self.client(), request)).await?.map_err(FleetError::Statistics)
    }

    async fn of_admin(&self, pod: &PodFacts) -> Result<Stats, FleetError> {
        let mut admin = self.forward(pod, ADMIN).await?;
        let response = admin.send(Method::GET, &format!("/{PAGE}")).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(FleetError::Statistics(format!("status {status}")));
        }
        let stats = read(response.into_body()).await;
        let stats = stats.map_err(|error| FleetError::Statistics(with_sources(&error)))?;
        stats.map_err(FleetError::Statistics)
    }
}

/// Why this answer of the agent's port lacks Envoy's statistics.
fn detour(answer: &Result<Stats, FleetError>) -> Option<Detour> {
    match answer {
        // Istio's agent: "Only requests from localhost are allowed".
        Err(FleetError::Api { status: 403, message, .. })
            if message.contains("requests from localhost") =>
        {
            Some(Detour::LocalOnly)
        }
        Ok(stats) if stats.are_of_the_agent_alone() => Some(Detour::NotMerged),
        _ => None,
    }
}

async fn page(
    client: kube::Client,
    request: Request<Vec<u8>>,
) -> Result<Result<Stats, String>, kube::Error> {
    let response = client.send(request.map(kube::client::Body::from)).await?;
    let status = response.status();
    let body = response.into_body();
    if status.is_success() {
        return read(body).await;
    }
    let body = Limited::new(body, LONGEST_REFUSAL).collect().await;
    let text = body.map(|body| body.to_bytes()).unwrap_or_default();
    Err(refusal(status.as_u16(), &String::from_utf8_lossy(&text)))
}

/// Reads the statistics as they arrive, because a pod may send more than fits into memory. The
/// inner error is that of the page.
async fn read<B>(mut body: B) -> Result<Result<Stats, String>, B::Error>
where
    B: Body<Data = Bytes, Error: Error> + Unpin,
{
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
