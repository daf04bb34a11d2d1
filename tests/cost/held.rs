//! Streams that stay in flight. Envoy's own fault filter holds them, so that no upstream has to.

use crate::variants::Variant;
use kit::bootstrap::extension;
use kit::h2::{self, Client, Stream};
use kit::prelude::*;

const FAULT: &str = "envoy.filters.http.fault";
const FAULT_TYPE: &str = "envoy.extensions.filters.http.fault.v3.HTTPFault";
const ON_ONE_CONNECTION: usize = 1000;

/// The listener, with `/hold` for requests that stay in flight.
pub(crate) fn holding(mut listener: Value) -> Outcome<Value> {
    let manager = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
    manager["stream_idle_timeout"] = json!("0s");
    manager["http2_protocol_options"] = json!({ "max_concurrent_streams": 20_000 });
    let filters = manager["http_filters"].as_array_mut().context("filters")?;
    filters.insert(filters.len() - 1, extension(FAULT, FAULT_TYPE, json!({})));
    let always = json!({ "numerator": 100, "denominator": "HUNDRED" });
    let mut delay = extension(
        FAULT,
        FAULT_TYPE,
        json!({ "delay": { "fixed_delay": "36000s", "percentage": always } }),
    );
    let route = json!({
        "match": { "path": "/hold" },
        "direct_response": { "status": 200 },
        "typed_per_filter_config": { FAULT: delay["typed_config"].take() },
    });
    manager["route_config"]["virtual_hosts"][0]["routes"]
        .as_array_mut()
        .context("routes")?
        .push(route);
    Ok(listener)
}

/// Streams that stay in flight until this value is gone.
pub(crate) struct Held {
    to: SocketAddr,
    clients: Vec<Client>,
    streams: Vec<Stream>,
}

impl Held {
    pub(crate) fn new(to: SocketAddr) -> Self {
        Self { to, clients: Vec::new(), streams: Vec::new() }
    }

    /// Begins streams until `to` of them are in flight.
    pub(crate) async fn grow(&mut self, to: usize) -> Outcome {
        while self.streams.len() < to {
            if self.streams.len() >= self.clients.len() * ON_ONE_CONNECTION {
                self.clients.push(Client::connect(self.to).await?);
            }
            let last = self.clients.len() - 1;
            self.streams.push(self.clients[last].open(h2::get("/hold"), true).await?);
        }
        Ok(())
    }

    /// Waits until Envoy counts all of them.
    pub(crate) async fn are_in_flight(&self, envoy: &Envoy, variant: &Variant) -> Outcome {
        let expected = self.streams.len() as u64;
        let active = format!("http.{}.downstream_rq_active", variant.name);
        envoy.wait_for_stat(&active, expected, Duration::from_secs(300)).await?;
        if variant.counts {
            let counter = "wasmcustom.laststream_streams_in_flight_gateway";
            envoy.wait_for_stat(counter, expected, Duration::from_secs(60)).await?;
        }
        Ok(())
    }
}
