//! An Envoy with the module and a gate, and a client of the gate.

use laststream_filter::gate::access::ADDRESS_KEY;
use tokio::task::JoinHandle;

pub(crate) use crate::cases::stage::SOON;
use crate::cases::stage::{clusters, discovered, hcm};
use crate::lab::Lab;
use kit::admin_cluster::admin_cluster;
use kit::admin_proxy::{AdminProxy, CallHandling};
use kit::bootstrap::filters::{Wasm, filter_state};
use kit::prelude::*;
use kit::xds::Xds;

/// The counters of two workers and of the main thread.
pub(crate) const COUNTERS: u64 = 3;

/// Requests to the gate that are in flight.
pub(crate) const WAITING: &str = "http.laststream.downstream_rq_active";

pub(crate) struct Bench {
    pub(crate) upstream: Upstream,
    pub(crate) envoy: Envoy,
    pub(crate) main: SocketAddr,
    pub(crate) gate: SocketAddr,
}

impl Bench {
    /// The module on `main`, a gate with this configuration beside it.
    pub(crate) async fn set(lab: &Lab, gate: &str) -> Outcome<Self> {
        Self::with(lab, gate, hcm(lab, "{}")).await
    }

    pub(crate) async fn with(lab: &Lab, gate: &str, main: Hcm) -> Outcome<Self> {
        Self::upon(Bootstrap::new(), lab, gate, main).await
    }

    /// [`Bench::with`] on top of this bootstrap.
    pub(crate) async fn upon(
        bootstrap: Bootstrap,
        lab: &Lab,
        gate: &str,
        main: Hcm,
    ) -> Outcome<Self> {
        Self::behind(Listener::new("main", main), bootstrap, lab, gate).await
    }

    /// [`Bench::upon`] with this listener instead of a connection manager.
    pub(crate) async fn behind(
        main: Listener,
        bootstrap: Bootstrap,
        lab: &Lab,
        gate: &str,
    ) -> Outcome<Self> {
        let upstream = Upstream::start().await?;
        let bootstrap = with_clusters(bootstrap, &upstream)
            .listener(main.direction("INBOUND"))
            .listener(gate_listener(lab, gate));
        Self::start(lab, upstream, bootstrap, options()).await
    }

    /// The gate reaches Envoy's admin interface through a proxy that judges each request.
    pub(crate) async fn proxied(
        bootstrap: Bootstrap,
        lab: &Lab,
        gate: &str,
        main: Hcm,
        judge: impl Fn(&str, &str) -> CallHandling + Send + Sync + 'static,
    ) -> Outcome<(Self, AdminProxy)> {
        Self::proxied_with(options(), bootstrap, lab, gate, main, judge).await
    }

    /// [`Bench::proxied`] with these options of Envoy.
    pub(crate) async fn proxied_with(
        options: Options,
        bootstrap: Bootstrap,
        lab: &Lab,
        gate: &str,
        main: Hcm,
        judge: impl Fn(&str, &str) -> CallHandling + Send + Sync + 'static,
    ) -> Outcome<(Self, AdminProxy)> {
        let (upstream, proxy) = (Upstream::start().await?, AdminProxy::start(judge)?);
        let bootstrap = clusters(bootstrap, &upstream)
            .cluster(proxy.cluster())
            .listener(Listener::new("main", main).direction("INBOUND"))
            .listener(gate_listener(lab, gate));
        let bench = Self::start(lab, upstream, bootstrap, options).await?;
        proxy.forward_to(&bench.envoy);
        Ok((bench, proxy))
    }

    /// Both filters, `laststream` and `gate`, come from discovery.
    pub(crate) async fn discovered(lab: &Lab, xds: &Xds) -> Outcome<Self> {
        Self::discovered_upon(Bootstrap::new(), lab, xds).await
    }

    /// [`Bench::discovered`] on top of this bootstrap.
    pub(crate) async fn discovered_upon(
        bootstrap: Bootstrap,
        lab: &Lab,
        xds: &Xds,
    ) -> Outcome<Self> {
        let upstream = Upstream::start().await?;
        let bootstrap = with_clusters(bootstrap, &upstream)
            .listener(Listener::new("main", discovered(xds)).direction("INBOUND"))
            .listener(gate_listener_with("gate", filters::discovered("gate", xds)));
        Self::start(lab, upstream, bootstrap, options()).await
    }

    /// Any Envoy that has the listeners `main` and `gate`.
    pub(crate) async fn start(
        lab: &Lab,
        upstream: Upstream,
        bootstrap: Bootstrap,
        options: Options,
    ) -> Outcome<Self> {
        let envoy = Envoy::start(&lab.envoy, bootstrap.build(), options).await?;
        let (main, gate) = (envoy.address("main").await?, envoy.address("gate").await?);
        Ok(Self { upstream, envoy, main, gate })
    }

    pub(crate) async fn get(&self, path: &str) -> Outcome<Response> {
        once(self.gate, &Request::get(path)).await
    }

    pub(crate) async fn post(&self, path: &str) -> Outcome<Response> {
        once(self.gate, &Request::post(path, "")).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Outcome<Response> {
        once(self.gate, &Request::new("DELETE", path)).await
    }

    /// A stop hook as kubelet calls it: one call, and any answer ends it.
    pub(crate) fn hook(&self) -> JoinHandle<Outcome<Response>> {
        let gate = self.gate;
        tokio::spawn(async move {
            Client::connect(gate).await?.patience(SOON * 2).get("/prestop?wait").await
        })
    }

    pub(crate) async fn status(&self) -> Outcome<Value> {
        self.get("/status").await?.expect(200)?.json()
    }

    /// A request that is in flight until the key is released.
    pub(crate) async fn held(&self, key: &str) -> Outcome<Client> {
        self.upstream.hold(self.main, key).await
    }

    /// [`Bench::held`] through another listener.
    pub(crate) async fn held_at(&self, listener: &str, key: &str) -> Outcome<Client> {
        self.upstream.hold(self.envoy.address(listener).await?, key).await
    }

    /// Requests that are held under this key, enough of them to reach both workers.
    pub(crate) async fn held_by_both_workers(&self, key: &str) -> Outcome<Vec<Client>> {
        self.upstream.hold_many(self.main, key, 12).await
    }

    /// Releases a held request, which must end with 200.
    pub(crate) async fn release(&self, key: &str, client: &mut Client) -> Outcome {
        self.upstream.release(key);
        client.response("GET").await?.expect(200).map(drop)
    }

    /// Waits until a field of the status has this value.
    pub(crate) async fn until(&self, field: &str, expected: impl Into<Value>) -> Outcome<Value> {
        let expected = expected.into();
        wait_for(SOON, &format!("{field} to be {expected}"), async || {
            let status = self.status().await?;
            if status[field] == expected { Ok(status) } else { bail!("{status}") }
        })
        .await
    }
}

/// Envoy closes no connection of a listener that drains, and asks all clients at once to leave.
pub(crate) fn options() -> Options {
    Options {
        drain_time_s: Some(600),
        extra: vec!["--drain-strategy".into(), "immediate".into()],
        ..Options::default()
    }
}

/// A bootstrap with the upstream, and with Envoy's admin interface for the gate.
pub(crate) fn bootstrap(upstream: &Upstream) -> Bootstrap {
    with_clusters(Bootstrap::new(), upstream)
}

pub(crate) fn with_clusters(bootstrap: Bootstrap, upstream: &Upstream) -> Bootstrap {
    clusters(bootstrap, upstream).cluster(admin_cluster("prometheus_stats"))
}

/// The module on `main`.
pub(crate) fn main_listener(lab: &Lab) -> Listener {
    Listener::new("main", hcm(lab, "{}")).direction("INBOUND")
}

/// A gate in a separate VM, with a route to 503 behind it, so that no failure of the gate looks
/// like its permission to stop.
pub(crate) fn gate_listener(lab: &Lab, gate: &str) -> Listener {
    gate_listener_with("gate", gate_filter(lab, gate))
}

/// [`gate_listener`] with another name or another filter.
pub(crate) fn gate_listener_with(name: &str, filter: Value) -> Listener {
    let hcm = Hcm::new("laststream")
        .filter(gate_address())
        .filter(filter)
        .route(Route::prefix("/").direct(503, "no gate"))
        .with("/stream_idle_timeout", json!("0s"));
    Listener::new(name, hcm).direction("OUTBOUND").with("/bypass_overload_manager", json!(true))
}

/// The filter that gives the gate the connection's local address, so that the gate can recognise
/// the loopback interface.
pub(crate) fn gate_address() -> Value {
    filter_state(ADDRESS_KEY, "%DOWNSTREAM_DIRECT_LOCAL_ADDRESS%")
}

/// The gate as a filter. The tests' clients ask for `test.local`, unless the configuration has
/// other names.
pub(crate) fn gate_filter(lab: &Lab, gate: &str) -> Value {
    let gate = match gate.strip_prefix('{').map(str::trim_start) {
        Some(rest) if !gate.contains(r#""hosts""#) => {
            format!(r#"{{"hosts": ["test.local"]{}{rest}"#, if rest == "}" { "" } else { ", " })
        }
        _ => gate.to_owned(),
    };
    let configuration = format!(r#"{{"role": "gate", "gate": {gate}}}"#);
    Wasm { name: "gate", vm_configuration: "gate", ..lab.stream(&configuration) }.filter()
}

/// The text of a field contains these words.
pub(crate) fn says(status: &Value, field: &str, words: &str) -> Outcome {
    let text = status[field].as_str().unwrap_or_default();
    ensure!(text.contains(words), "`{words}` is not in {field} of {status}");
    Ok(())
}

pub(crate) fn same(status: &Value, field: &str, expected: impl Into<Value>) -> Outcome {
    let expected = expected.into();
    ensure_eq!(status[field], expected, "{field} in {status}");
    Ok(())
}
