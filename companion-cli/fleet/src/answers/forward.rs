//! A connection to one port of a pod, through a port-forward of the API server. It also reaches
//! ports on the pod's loopback interface.

use std::pin::Pin;
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::Portforwarder;
use tokio::task::JoinHandle;

use crate::api::call::Call;
use crate::api::client::Cluster;
use crate::api::error::FleetError;
use crate::pods::facts::PodFacts;
use laststream_base::causes::with_sources;

/// The time limit for kubelet's reason after a connection has ended.
const MOMENT: Duration = Duration::from_millis(100);

type Refusal = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

pub(crate) struct Forward {
    forwarder: Portforwarder,
    port: u16,
    /// kubelet's error for the port, for example that no program listens on it.
    refused: Option<Refusal>,
    sender: SendRequest<Empty<Bytes>>,
    connection: JoinHandle<()>,
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.connection.abort();
        self.forwarder.abort();
    }
}

impl Cluster {
    pub(crate) async fn forward(&self, pod: &PodFacts, port: u16) -> Result<Forward, FleetError> {
        let call = Call::new("get", "pods/portforward").within(&pod.namespace).named(&pod.name);
        let pods: Api<Pod> = Api::namespaced(self.client(), &pod.namespace);
        let mut forwarder = self.once(&call, pods.portforward(&pod.name, &[port])).await?;
        let refused = forwarder.take_error(port);
        let refused = refused.map(|refused| -> Refusal { Box::pin(refused) });
        let stream = forwarder.take_stream(port);
        let stream =
            stream.ok_or_else(|| FleetError::Connection("no port is forwarded".to_owned()))?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) =
            handshake.map_err(|error| FleetError::Connection(with_sources(&error)))?;
        let connection = tokio::spawn(async move {
            let _ = connection.await; // the sender reports its end
        });
        Ok(Forward { forwarder, port, refused, sender, connection })
    }
}

impl Forward {
    /// Sends a request without a body.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
    ) -> Result<Response<Incoming>, FleetError> {
        let request = Request::builder().method(method).uri(path).header("host", "127.0.0.1");
        let request = request.body(Empty::new());
        let request = request.map_err(|error| FleetError::Connection(error.to_string()))?;
        let answer = match self.sender.ready().await {
            Ok(()) => self.sender.send_request(request).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(response) => Ok(response),
            Err(error) => Err(self.why_ended(&with_sources(&error)).await),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// The connection's own error is only its end; kubelet's error has the reason.
    async fn why_ended(&mut self, end: &str) -> FleetError {
        let why = match self.refused.take() {
            Some(refused) => tokio::time::timeout(MOMENT, refused).await.ok().flatten(),
            None => None,
        };
        FleetError::Connection(match why {
            // kubelet names the pod and paths of the node before this.
            Some(why) if why.to_lowercase().contains("connection refused") => {
                format!("no program listens on port {} of the pod", self.port)
            }
            Some(why) => format!("{}: the connection ended: {end}", why.trim()),
            None => format!("the connection ended: {end}"),
        })
    }
}
